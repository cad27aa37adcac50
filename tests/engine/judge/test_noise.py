"""The noise model's parts against figures found another way; a run's words. Populations: test_noise_power."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import special, stats

from perf.judge.noise import Noise, bound, estimate, smallest_visible_change
from perf.judge.suite import is_suspect, judge_value, per_test_level
from perf.outcome import Word

KNOWN = Noise(centre=0.0, highest=0.0, scale=0.01, df=1e9, runs=10**6)
"""σ is 1 % and known; the centre is 1."""


def logs_of(*percent: float) -> list[float]:
    """Values whose natural logs are so many hundredths."""
    return [math.exp(p / 100) for p in percent]


def alone(values: Sequence[float]) -> Noise:
    return estimate({"one": values})["one"]


def test_three_runs_alone_are_students_prediction_interval() -> None:
    """Logs 0, 1, 5 %: median 1, sample variance ((−2)² + (−1)² + 3²) / 2 = 7; the median of three normal values has
    0.4487 of the variance of one."""
    noise = alone(logs_of(0, 1, 5))
    assert (noise.centre, noise.df, noise.runs) == pytest.approx((0.01, 2.0, 3))
    assert noise.scale == pytest.approx(math.sqrt(7) / 100)
    expected = stats.t.isf(0.01, 2) * math.sqrt(7) / 100 * math.sqrt(1 + 0.4487)
    assert bound(noise, 0.01) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("k", [5, 7, 10, 14, 20])
def test_the_own_scale_leaves_out_one_run_in_five(k: int) -> None:
    """It is proportional to the least standard deviation of any k − ⌊k/5⌋ of the runs, however far the others are."""
    rng = np.random.default_rng(k)
    logs = rng.standard_normal(k) / 100
    logs[: k // 5] += rng.uniform(1, 5, k // 5)
    least = min(np.std(kept, ddof=1) for kept in itertools.combinations(logs, k - k // 5))
    quiet = np.sort(rng.standard_normal(k))
    ratio = alone(np.exp(quiet / 100).tolist()).scale / min(
        np.std(quiet[i : i + k - k // 5] / 100, ddof=1) for i in range(k // 5 + 1)
    )
    assert alone(np.exp(logs).tolist()).scale == pytest.approx(ratio * least, rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 5, 6, 9, 10, 20])
def test_the_own_scale_has_the_degrees_of_freedom_it_says(k: int) -> None:
    """log s² of normal runs has the mean and the variance of log χ²(df)/df: ψ(df/2) − log(df/2) and ψ'(df/2)."""
    draws = np.exp(np.random.default_rng(k).standard_normal((4000, k)) / 100)
    found = [alone(values) for values in draws.tolist()]
    log_s2 = np.array([2 * math.log(noise.scale * 100) for noise in found])
    half, error = found[0].df / 2, log_s2.std() / math.sqrt(4000)
    assert log_s2.mean() == pytest.approx(special.digamma(half) - math.log(half), abs=4 * error)
    assert log_s2.var() == pytest.approx(special.polygamma(1, half), rel=0.15)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 9, 15, 20, 40])
def test_the_centre_counts_as_often_as_a_median_does(k: int) -> None:
    medians = np.median(np.random.default_rng(k).standard_normal((40_000, k)), axis=1)
    spread = Noise(centre=0.0, highest=0.0, scale=1.0, df=5.0, runs=k).spread()
    assert spread**2 == pytest.approx(1 + medians.var(), rel=4 * math.sqrt(2 / 40_000))


def test_shrinkage_is_the_posterior_of_its_prior() -> None:
    """Against importance sampling of the prior: τ half-Cauchy(1) to 4, log s0² flat, σ² ~ d0·s0²/χ²(d0)."""
    runs = [logs_of(0, 0.1, 0.3), logs_of(0, 0.5, -0.5), logs_of(0, 2, 3), logs_of(0, 1, 1.5), logs_of(0)]
    found = estimate(dict(enumerate(runs)))
    log_s2 = np.log([np.var(np.log(values), ddof=1) for values in runs[:4]])
    rng = np.random.default_rng(0)
    tau = np.tan(rng.uniform(0, math.atan(4), 400_000))
    table = np.geomspace(0.2, 1e4, 4000)
    d0 = 2 * np.interp(-(tau**2), -special.polygamma(1, table), table)
    log_s0 = rng.uniform(log_s2.min() - 2, log_s2.max() + 2, tau.size)
    ratio = np.exp(log_s2[:, None] - log_s0)
    weight = np.exp((stats.f.logpdf(ratio, 2, d0) + np.log(ratio)).sum(axis=0))
    chosen = rng.choice(tau.size, 100_000, p=weight / weight.sum())
    for case, (s2, df) in enumerate(zip([*np.exp(log_s2), 0.0], [2, 2, 2, 2, 0], strict=True)):
        total = d0[chosen] * np.exp(log_s0[chosen]) + df * s2
        log_sigma2 = np.log(total / rng.chisquare(d0[chosen] + df))
        half = found[case].df / 2
        assert special.polygamma(1, half) == pytest.approx(log_sigma2.var(), rel=0.06)
        mean = 2 * math.log(found[case].scale) + math.log(half) - special.digamma(half)
        assert mean == pytest.approx(log_sigma2.mean(), abs=0.06)


def test_like_cases_lend_one_another_degrees_of_freedom_and_unlike_ones_few() -> None:
    like = estimate({i: logs_of(0, 1, 2) for i in range(12)})[0]
    unlike = estimate({i: logs_of(0, 4.0**i, 2 * 4.0**i) for i in range(-6, 6)})[0]
    assert like.df > 12
    assert like.scale == pytest.approx(0.01, rel=0.15)
    assert 2 < unlike.df < 4
    assert unlike.scale == pytest.approx(0.01, rel=0.15)


def test_a_quiet_pool_calms_a_loud_case_and_a_loud_pool_wakes_a_quiet_one() -> None:
    loud = estimate({"odd": logs_of(0, 2, 4)} | {i: logs_of(0, 1, 2) for i in range(11)})["odd"]
    quiet = estimate({"odd": logs_of(0, 0.5, 1)} | {i: logs_of(0, 1, 2) for i in range(11)})["odd"]
    assert 0.01 < loud.scale < 0.02
    assert 0.005 < quiet.scale < 0.01


def test_units_do_not_matter() -> None:
    seconds = {"a": [1.0, 1.1, 1.3], "b": [2.0, 2.1], "c": [5.0], "d": [1.0, 1.2, 1.1, 1.0, 1.4]}
    first, second = estimate(seconds), estimate({key: [1e3 * v for v in values] for key, values in seconds.items()})
    for key in seconds:
        assert second[key].centre - first[key].centre == pytest.approx(math.log(1e3))
        assert (second[key].scale, second[key].df) == pytest.approx((first[key].scale, first[key].df))


def test_equal_values_are_not_without_noise() -> None:
    """Bytes that never changed: the least scale is 0.01 %, so that 3 % more is a regression."""
    noise = estimate({i: [4096.0] * 5 for i in range(4)})[0]
    assert noise.scale == pytest.approx(1e-4, rel=0.3)
    assert judge_value(4096.0, noise, 0.02, 1e-3)[0] is Word.SAME
    assert judge_value(4096.0 * 1.03, noise, 0.02, 1e-3)[0] is Word.REGRESSED


@pytest.mark.parametrize("pool", [{}, {"b": [1.0]}, {"b": [1.0, 1.1], "c": [2.0, 2.1]}])
def test_one_run_without_a_pool_has_no_noise_and_no_verdict(pool: dict[str, list[float]]) -> None:
    noise = estimate({"a": [1.0], **pool})["a"]
    assert bound(noise, 0.01) == smallest_visible_change(noise, 0.01) == math.inf
    word, why = judge_value(3.0, noise, 0.05, 0.01)
    assert word is Word.INCONCLUSIVE
    assert why == "+200.0%; the noise is not known yet: accept more runs; provisional: 1 of 3 runs in the baseline"


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [math.inf]])
def test_histories_without_logs_are_refused_by_name(values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"^llama: .* positive finite values are wanted"):
        estimate({"llama": values, "fine": [1.0, 1.1]})


def test_levels_of_no_meaning_are_refused() -> None:
    for level in (0.0, 0.5, math.nan):
        with pytest.raises(ValueError, match=r"a probability between 0 and 0\.5 is wanted"):
            bound(KNOWN, level)
    with pytest.raises(ValueError, match="0 tests"):
        per_test_level(0)
    with pytest.raises(ValueError, match=r"budget -0\.1"):
        judge_value(1.0, KNOWN, -0.1, 0.01)


def test_the_suites_level_is_shared_evenly() -> None:
    assert per_test_level(40) == pytest.approx(0.00025)
    assert 1 - (1 - per_test_level(40)) ** 40 <= 0.01


def test_the_smallest_visible_change_of_a_known_noise() -> None:
    """z(1 %) + z(20 %) = 2.3263 + 0.8416 standard deviations of 1 %."""
    assert smallest_visible_change(KNOWN, 0.01) == pytest.approx(math.expm1(0.031680), rel=1e-4)


CASES = [  # percent of run and re-measurements, budget, word; bounds at 1 %: 2.33 %, 1.64 %, of three's mean 1.90 %
    ([0], 0.05, Word.SAME),
    ([4.8], 0.05, Word.SAME),
    ([4.9], 0.05, Word.REGRESSED),  # log 1.05 = 4.88 %
    ([-4.8], 0.05, Word.SAME),
    ([-4.9], 0.05, Word.IMPROVED),
    ([2.3], 0.02, Word.INCONCLUSIVE),  # beyond the budget, within the noise; 3.2 % would be seen
    ([2.4], 0.02, Word.REGRESSED),
    ([0], 0.02, Word.INCONCLUSIVE),
    ([0], 0.033, Word.SAME),
    ([6, 5, 7], 0.05, Word.REGRESSED),
    ([6, 1.7, 7], 0.05, Word.REGRESSED),
    ([6, 1.6, 7], 0.05, Word.INCONCLUSIVE),  # two of three beyond the budget, one no slower
    ([1.7, 1.9, 2.2], 0.01, Word.REGRESSED),  # a suspect at 5 %; the mean of all, 1.93 %, is beyond √(½ + ½/3) × 2.33 %
    ([1.7, 1.8, 2.1], 0.01, Word.INCONCLUSIVE),  # their mean, 1.87 %, is not
    ([1.6, 3, 3], 0.01, Word.INCONCLUSIVE),  # never a suspect
    ([6, 0, 1], 0.05, Word.SAME),  # one bad run
    ([6, 4, 4], 0.05, Word.SAME),  # slower, within the budget
    ([0, 6, 6], 0.05, Word.SAME),  # never a suspect
    ([3, 6, 6], 0.05, Word.SAME),  # nor this: beyond the noise, within the budget
    ([-6, -5, -7], 0.05, Word.IMPROVED),
    ([-6, 0, 1], 0.05, Word.SAME),
    ([6, 0, 1], 0.02, Word.INCONCLUSIVE),  # one bad run, and the noise hides the budget
]


@pytest.mark.parametrize(("percent", "budget", "word"), CASES)
def test_words(percent: list[float], budget: float, word: Word) -> None:
    assert judge_value(logs_of(*percent), KNOWN, budget, 0.01)[0] is word


@pytest.mark.parametrize(
    ("percent", "budget", "level", "suspect"),
    [
        (1.7, 0.0, 0.01, True),  # one test: at 5 %, 1.64 deviations
        (1.6, 0.0, 0.01, False),
        (1.7, 0.02, 0.01, False),  # within the budget
        (2.4, 0.0, 0.0001, True),  # a hundred tests: at 1 %, 2.33 deviations
        (2.3, 0.0, 0.0001, False),
        (-9, 0.0, 0.01, False),  # faster
    ],
)
def test_one_unchanged_case_a_run_is_measured_again(percent: float, budget: float, level: float, suspect: bool) -> None:
    (value,) = logs_of(percent)
    assert is_suspect(value, KNOWN, budget, level) is suspect


@pytest.mark.parametrize(("percent", "again"), [(2.4, False), (3.6, False), (3.8, True)])
def test_what_another_look_can_only_refute_is_measured_again_beyond_its_bound(percent: float, again: bool) -> None:
    """A hundred tests: each has the level 1e-4, 3.72 deviations."""
    (value,) = logs_of(percent)
    assert is_suspect(value, KNOWN, 0.0, 0.0001, shared=1.0) is again


def test_a_word_says_why() -> None:
    assert judge_value(1.1, KNOWN, 0.05, 0.01) == (Word.REGRESSED, "+10.0%")
    assert judge_value([1.1, 1.08, 1.09], KNOWN, 0.05, 0.01)[1] == "+10.0%, again +8.0%, +9.0%"
    noisy = "+0.0%; too noisy for a budget of 2.0%: +3.2% would be seen 8 times in 10"
    assert judge_value(1.0, KNOWN, 0.02, 0.01) == (Word.INCONCLUSIVE, noisy)
    early = Noise(centre=0.0, highest=0.0, scale=0.001, df=50.0, runs=2)
    assert judge_value(1.1, early, 0.05, 0.01) == (
        Word.REGRESSED,
        "+10.0%; provisional: 2 of 3 runs in the baseline",
    )
