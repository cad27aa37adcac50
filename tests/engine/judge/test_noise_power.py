"""False alarms and power on populations whose truth is known, beside the figures that perf.judge.noise states."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perf.judge.noise import Noise, bound, estimate, smallest_visible_change
from perf.judge.suite import CONFIRMATION_LEVEL, SUITE_LEVEL, judge_value
from perf.outcome import Word
from tests.engine.judge.populations import (
    CASES,
    LEVEL,
    POPULATIONS,
    UNIT,
    Array,
    Baselines,
    Population,
    baselines,
    draw_normal,
    normal_above,
)

Figures = dict[str, list[tuple[float, float]]]
RUNS = (1, 2, 3, 5, 20)
STATED_POOLS = 2000
# (mean, standard deviation of one pool's mean) over that many pools of other seeds, for each k of RUNS, in units of the
# level: first values beyond the bound, runs that are `regressed` after two re-measurements, and runs beyond the
# confirming bound of 5 %.
SUSPECTS: Figures = {
    "normal": [(0.842, 4.9), (0.813, 4), (0.914, 3.1), (1.24, 3.3), (1.01, 1.1)],
    "heavy": [(2.32, 9.2), (1.89, 4.2), (3.02, 3.9), (5.59, 4.6), (13.5, 3)],
    "bad-before": [(0.000893, 0.031), (0.0255, 0.71), (0.00361, 0.14), (0.026, 0.22), (0.0395, 0.15)],
    "bad": [(1.21, 10), (2.91, 16), (12.1, 21), (62.3, 44), (152, 34)],
    "modes": [(0.0727, 2.1), (1.06, 6.7), (5.19, 16), (33.7, 41), (82.1, 46)],
}
CONFIRMED: Figures = {
    "normal": [(0.363, 3.1), (0.198, 1.9), (0.208, 1.7), (0.262, 1.3), (0.0437, 0.15)],
    "heavy": [(1.81, 12), (0.356, 3.8), (0.247, 1.2), (0.288, 1), (0.267, 0.27)],
    "bad-before": [(0.00207, 0.093), (0.000749, 0.033), (0.000597, 0.027), (0.0147, 0.39), (0.00279, 0.1)],
    "bad": [(0.172, 1.7), (0.351, 2.7), (1.27, 2.8), (5.03, 4.2), (7.16, 1.8)],
    "modes": [(0.0188, 0.48), (0.221, 1.7), (0.889, 2.6), (5.48, 6.5), (8.13, 4.4)],
}
BEYOND_5_PERCENT: Figures = {
    "normal": [(0.843, 0.81), (1.04, 0.81), (0.972, 0.61), (1.02, 0.54), (0.998, 0.26)],
    "heavy": [(1.16, 0.98), (1.02, 0.72), (1.01, 0.54), (1.22, 0.48), (1.37, 0.23)],
    "bad-before": [(0.038, 0.16), (0.154, 0.36), (0.157, 0.29), (0.265, 0.29), (0.153, 0.11)],
    "bad": [(1.62, 1), (2.28, 1.1), (2.12, 0.79), (3.16, 0.64), (3.76, 0.31)],
    "modes": [(1.03, 1), (2.11, 1.4), (1.93, 0.98), (3.19, 1), (3.65, 0.77)],
}
POOLS = 80


def near(chances: Array, stated: tuple[float, float], unit: float = 1.0) -> bool:
    """Within four standard errors of both simulations together; pools are independent, cases of one pool are not."""
    error = stated[1] * math.sqrt(1 / len(chances) + 1 / STATED_POOLS)
    return abs(float(chances.mean()) / unit - stated[0]) <= 4 * error


@pytest.mark.parametrize("k", RUNS)
@pytest.mark.parametrize("name", POPULATIONS)
def test_false_alarms_are_as_stated(name: str, k: int) -> None:
    population = POPULATIONS[name]
    drawn = baselines(population, k, POOLS, seed=10 + k)
    suspects, confirmed = drawn.exceeds(population)
    at = RUNS.index(k)
    assert near(suspects, SUSPECTS[name][at], LEVEL)
    assert near(confirmed, CONFIRMED[name][at], LEVEL)
    beyond = population.above((drawn.centre + drawn.loose) / drawn.sigma)
    assert near(beyond, BEYOND_5_PERCENT[name][at], CONFIRMATION_LEVEL)


@pytest.mark.parametrize("k", [5, 20])
@pytest.mark.parametrize("name", ["normal", "heavy", "bad-before"])
def test_the_suite_keeps_its_level_after_confirmation(name: str, k: int) -> None:
    """Where a new run is no worse than the accepted ones."""
    population = POPULATIONS[name]
    _, confirmed = baselines(population, k, POOLS, seed=10 + k).exceeds(population)
    assert CASES * confirmed.mean() <= SUITE_LEVEL


@pytest.mark.parametrize(("k", "power"), [(1, 0.964), (2, 0.969), (3, 0.965), (5, 0.971), (20, 0.977)])
def test_power_at_the_smallest_visible_change(k: int, power: float) -> None:
    drawn = baselines(POPULATIONS["normal"], k, POOLS, seed=10 + k)
    suspects, confirmed = drawn.exceeds(POPULATIONS["normal"], slower=drawn.strict + drawn.likely)
    assert near(suspects, (0.80, 0.07))
    assert near(confirmed, (power, 0.05))


@pytest.mark.parametrize(("name", "power"), [("heavy", 0.807), ("bad-before", 0.886), ("modes", 0.960)])
def test_power_elsewhere_with_twenty_runs(name: str, power: float) -> None:
    """Not below what is stated: what widens the scale widens the change that is called visible."""
    drawn = baselines(POPULATIONS[name], 20, POOLS, seed=30)
    suspects, _ = drawn.exceeds(POPULATIONS[name], slower=drawn.strict + drawn.likely)
    assert near(suspects, (power, 0.03))


def test_one_bad_run_in_five_widens_the_bound_and_does_not_blow_it_up() -> None:
    """Exactly one of five at +10σ or +1000σ: the same bounds, less than twice as wide as without."""
    sizes = {size: np.median(one_bad_in_five(size).strict) for size in (0.0, 10.0, 1000.0)}
    assert sizes[1000.0] == pytest.approx(sizes[10.0], rel=1e-9)
    assert 1.0 < sizes[10.0] / sizes[0.0] < 2.0


def one_bad_in_five(size: float) -> Baselines:
    bad = size * (np.arange(5) == 2)
    return baselines(Population(lambda rng, k: draw_normal(rng, k) + bad, normal_above), 5, POOLS, seed=3)


def steady(step: float, k: int) -> Population:
    """Each run `step` σ slower than the one before it; the new one, too."""
    return Population(
        lambda rng, runs: draw_normal(rng, runs) + step * np.arange(runs),
        lambda x: normal_above(x - step * k),
    )


@pytest.mark.parametrize(("k", "stated"), [(2, (3.16, 13.0)), (3, (3.04, 12.0)), (5, (0.308, 2.9)), (20, (0.0, 0.001))])
def test_accepted_drift_is_learnt_as_noise(k: int, stated: tuple[float, float]) -> None:
    population = steady(2.0, k)
    suspects, _ = baselines(population, k, POOLS, seed=10 + k).exceeds(population)
    assert near(suspects, stated, LEVEL)


@pytest.mark.parametrize(
    ("k", "shared", "stated"),
    [
        (3, 0.0, (0.0098, 0.033)),
        (5, 0.0, (0.0118, 0.032)),
        (20, 0.0, (0.0110, 0.013)),
        (3, 0.9, (0.0282, 0.070)),
        (5, 0.9, (0.0238, 0.059)),
        (20, 0.9, (0.0050, 0.0093)),
    ],
)
def test_suspects_of_a_whole_run(k: int, shared: float, stated: tuple[float, float]) -> None:
    """Chance of one false suspect or more among twelve cases with `shared` of their variance from the machine."""
    rng = np.random.default_rng(k)
    found = np.array([[any_suspect(rng, k, shared)] for _ in range(POOLS)])
    assert near(found, stated)


def any_suspect(rng: np.random.Generator, k: int, shared: float) -> float:
    """Of one drawn pool, over all machine effects (Gauss–Hermite) and all new runs."""
    sigma = UNIT * np.exp(0.5 * rng.standard_normal((CASES, 1)))
    effect = rng.standard_normal(k)
    logs = sigma * (math.sqrt(shared) * effect + math.sqrt(1 - shared) * rng.standard_normal((CASES, k)))
    noises = estimate({i: np.exp(logs[i]) for i in range(CASES)})
    limit = np.array([[noise.centre + bound(noise, LEVEL)] for noise in noises.values()]) / sigma
    at, weight = np.polynomial.hermite_e.hermegauss(61)
    above = normal_above((limit - math.sqrt(shared) * at) / math.sqrt(1 - shared))
    return float((weight / weight.sum() * (1 - np.prod(1 - above, axis=0))).sum())


def test_words_come_as_often_as_the_bounds_say() -> None:
    """New runs drawn and judged one by one, beside a baseline whose noise is known exactly."""
    noise = Noise(centre=0.0, highest=0.0, scale=0.01, df=1e9, runs=10**6)
    rng = np.random.default_rng(0)
    slower = math.log1p(smallest_visible_change(noise, 0.01))
    words = [judge_value(math.exp(0.01 * z + slower), noise, 0.0, 0.01)[0] for z in rng.standard_normal(2000)]
    seen = words.count(Word.REGRESSED) / len(words)
    assert seen == pytest.approx(0.8, abs=4 * math.sqrt(0.8 * 0.2 / 2000))
    assert Word.SAME not in words  # with a budget of 0 any noise is too much


def test_re_measurements_that_share_half_their_variance_keep_the_level() -> None:
    """The case that the bound of a mean is made for: three values of one machine, beside a noise known exactly. By
    itself 1.0 % of such means is beyond it; that each value must be, too, takes some of these away."""
    noise = Noise(centre=0.0, highest=0.0, scale=0.01, df=1e9, runs=10**6)
    rng = np.random.default_rng(0)
    values = 0.01 * math.sqrt(0.5) * (rng.standard_normal((20000, 1)) + rng.standard_normal((20000, 3)))
    words = [judge_value(list(np.exp(row)), noise, 0.0, 0.01)[0] for row in values]
    means = values.mean(axis=1) > bound(noise, 0.01, 3)
    error = math.sqrt(0.01 * 0.99 / 20000)
    assert means.mean() == pytest.approx(0.01, abs=4 * error)
    alarms = words.count(Word.REGRESSED) / len(words)
    assert 0.003 < alarms < 0.01  # 0.46 %
