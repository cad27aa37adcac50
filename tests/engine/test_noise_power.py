"""False alarms and power on populations whose truth is known, beside the figures that perf.judge.noise states.

Baselines are drawn; the new run is not: given a baseline, its chance to exceed a bound is the population's survival
function there, so that levels of 1e-3 are measured with few draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from perf.judge.drift import drift
from perf.judge.noise import Noise, bound, estimate, smallest_visible_change
from perf.judge.suite import CONFIRMATION_LEVEL, judge_value, per_test_level
from perf.outcome import Word

Array = NDArray[np.float64]
CASES = 12
LEVEL = per_test_level(CASES)
UNIT = 0.003
"""σ of a middling case, on logs."""


def normal_above(x: Array) -> Array:
    return np.asarray(special.ndtr(-x))


def t3_above(x: Array) -> Array:
    return np.asarray(special.stdtr(3, -x))


def bad_above(x: Array) -> Array:
    return 0.8 * normal_above(x) + 0.2 * normal_above(x - 10)


def modes_above(x: Array) -> Array:
    return 0.7 * normal_above(x) + 0.3 * normal_above(x - 10)


def draw_normal(rng: np.random.Generator, k: int) -> Array:
    return rng.standard_normal(k)


def draw_t3(rng: np.random.Generator, k: int) -> Array:
    return rng.standard_t(3, k)


def draw_bad(rng: np.random.Generator, k: int) -> Array:
    return rng.standard_normal(k) + 10 * (rng.random(k) < 0.2)


def draw_modes(rng: np.random.Generator, k: int) -> Array:
    return rng.standard_normal(k) + 10 * (rng.random(k) < 0.3)


@dataclass(frozen=True)
class Population:
    """Noise in units of a case's σ: a draw of k runs, and the chance of a new run above x."""

    draw: Callable[[np.random.Generator, int], Array]
    above: Callable[[Array], Array]


POPULATIONS = {
    "normal": Population(draw_normal, normal_above),
    "heavy": Population(draw_t3, t3_above),
    "bad-before": Population(draw_bad, normal_above),
    "bad": Population(draw_bad, bad_above),
    "modes": Population(draw_modes, modes_above),
}
RUNS = (1, 2, 3, 5, 20)


@dataclass(frozen=True)
class Baselines:
    """Arrays of shape (pools, cases): a case's σ and centre on logs, and its bounds at the suite's and the confirming
    level and for a power of 0.8."""

    sigma: Array
    centre: Array
    strict: Array
    loose: Array
    likely: Array

    def exceeds(self, population: Population, slower: Array | float = 0.0) -> tuple[Array, Array]:
        """Chance that a run is a suspect, and that two re-measurements then bear it out; `slower` on logs."""
        first = population.above((self.centre + self.strict - slower) / self.sigma)
        again = population.above((self.centre + self.loose - slower) / self.sigma)
        return first, first * again**2


def baselines(population: Population, k: int, pools: int, seed: int) -> Baselines:
    """Pools of twelve cases of k runs, whose σ vary by a factor e^0.5; one-run cases have eleven five-run ones beside them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(pools):
        sigma = UNIT * np.exp(0.5 * rng.standard_normal(CASES + 11))
        runs = [k] * CASES + [5] * (11 if k == 1 else 0)
        noises = estimate({i: np.exp(sigma[i] * population.draw(rng, n)) for i, n in enumerate(runs)})
        found.append([(sigma[i], noises[i].centre, *bounds_of(noises[i])) for i in range(CASES)])
    return Baselines(*np.array(found).transpose(2, 0, 1))


def bounds_of(noise: Noise) -> tuple[float, float, float]:
    return bound(noise, LEVEL), bound(noise, CONFIRMATION_LEVEL), bound(noise, 0.2)


def mean_and_error(chances: Array) -> tuple[float, float]:
    """Mean and its Monte-Carlo standard error; cases of one pool depend on each other, pools do not."""
    pools = chances.mean(axis=1)
    return float(pools.mean()), float(pools.std(ddof=1) / math.sqrt(len(pools)))
