"""Populations of runs whose truth is known, and baselines drawn from them.

The new run is not drawn: given a baseline, its chance to exceed a bound is the population's survival function there, so
that levels of 1e-3 are measured with few draws.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from perf.judge.noise import Noise, bound, estimate
from perf.judge.suite import CONFIRMATION_LEVEL, per_test_level, suspect_level

Array = NDArray[np.float64]
CASES = 12
LEVEL = per_test_level(CASES)
UNIT = 0.003
"""σ of a middling case, on logs."""


def normal_above(x: Array) -> Array:
    return np.asarray(special.ndtr(-x), dtype=np.float64)


def t3_above(x: Array) -> Array:
    return np.asarray(special.stdtr(3, -x), dtype=np.float64)


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

GRID = np.concatenate([np.linspace(-12, 12, 20001), np.geomspace(12.01, 1e6, 8000)])
DRAWS = 32
"""Of a first value and two re-measurements, for each case of each pool."""


def values_above(population: Population, chances: Array) -> Array:
    """Where the population's survival function has fallen to `chances`."""
    survival = population.above(GRID)
    within = survival > 1e-290
    return np.interp(-np.log(np.maximum(chances, 1e-290)), -np.log(survival[within]), GRID[within])


@dataclass(frozen=True)
class Baselines:
    """Arrays of shape (pools, cases): a case's σ and centre on logs, and its bounds: the suite's, that of suspects, the
    confirming one, that for a power of 0.8, and the suite's for a mean of three."""

    sigma: Array
    centre: Array
    strict: Array
    suspect: Array
    loose: Array
    likely: Array
    mean: Array

    def exceeds(self, population: Population, slower: Array | float = 0.0) -> tuple[Array, Array]:
        """Chance that a first value is beyond the suite's bound, and that a first value and two re-measurements are
        `regressed`; `slower` on logs. For the latter, suspects and what passes the confirming bound are drawn from the
        population's tails, and their mean is looked at."""
        at_once, suspect, passing = (
            population.above((self.centre + limit - slower) / self.sigma)
            for limit in (self.strict, self.suspect, self.loose)
        )
        chances = np.stack([suspect, passing, passing])[:, None]
        drawn = np.random.default_rng(0).random((3, DRAWS, *self.sigma.shape)) * chances
        ahead = slower + self.sigma * values_above(population, drawn) - self.centre
        return at_once, suspect * passing**2 * (ahead.mean(axis=0) > self.mean).mean(axis=0)


@functools.cache
def baselines(population: Population, k: int, pools: int, seed: int) -> Baselines:
    """Pools of twelve cases of k runs whose σ vary by a factor e^0.5; one-run cases have eleven of five beside them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(pools):
        sigma = UNIT * np.exp(0.5 * rng.standard_normal(CASES + 11))
        runs = [k] * CASES + [5] * (11 if k == 1 else 0)
        noises = estimate({i: np.exp(sigma[i] * population.draw(rng, n)) for i, n in enumerate(runs)})
        found.append([(sigma[i], noises[i].centre, *bounds_of(noises[i])) for i in range(CASES)])
    return Baselines(*np.array(found).transpose(2, 0, 1))


def bounds_of(noise: Noise) -> list[float]:
    alone = [bound(noise, level) for level in (LEVEL, suspect_level(LEVEL), CONFIRMATION_LEVEL, 0.2)]
    return [*alone, bound(noise, LEVEL, 3)]
