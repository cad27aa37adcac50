"""Rates on recorded runs whose truth is known."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from perf.outcome import Word
from perf.study.rates import Baselines, Outcome, Trial, any_alarm, at_random, in_order, judge_all, rate
from perf.study.rules import median_of, ours, threshold
from tests.engine.study.toys import flat, key, population

FIXED = threshold("", median_of, 0.05)
CASES = 12


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (1, 50), (25, 50), (49, 50), (50, 50)])
def test_intervals_are_clopper_and_pearsons(hits: int, runs: int) -> None:
    expected = stats.binomtest(hits, runs).proportion_ci(method="exact")
    found = rate(hits / runs, runs)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_no_run_is_judged_beside_itself() -> None:
    trials = at_random([True] * 30, range(8), k=5, times=7, seed=3)
    assert [trial.judged for trial in trials] == [run for run in range(8) for _ in range(7)]
    for trial in trials:
        together = [trial.judged, *trial.baseline, *trial.again]
        assert len(trial.baseline) == 5
        assert len(trial.again) == 2
        assert len(set(together)) == len(together)
        assert list(trial.baseline) == sorted(trial.baseline)
        assert set(trial.again) <= set(range(8))
    assert max(run for trial in trials for run in trial.baseline) > 8  # baselines come from all runs


@pytest.mark.parametrize(("runs", "judged", "k"), [(7, 7, 5), (30, 2, 5)])
def test_too_few_runs_are_no_trial(runs: int, judged: int, k: int) -> None:
    assert at_random([True] * runs, range(judged), k, times=10, seed=1) == ()


def test_in_order_is_the_runs_before_and_those_after() -> None:
    assert in_order([True] * 6, 2) == (Trial(2, (0, 1), (3, 4)), Trial(3, (1, 2), (4, 5)))


def test_a_disturbed_run_is_judged_and_in_no_baseline() -> None:
    fit = [True, False, True, True, True, True]
    assert in_order(fit, 2) == (Trial(3, (0, 2), (4, 5)),)
    assert in_order([True, True, False, True, True], 2) == (Trial(2, (0, 1), (3, 4)),)
    trials = at_random(fit, range(6), k=2, times=9, seed=1)
    assert {trial.judged for trial in trials} == set(range(6))
    assert not any(1 in trial.baseline for trial in trials)
    assert at_random([True] * 4 + [False] * 3, range(7), k=2, times=1, seed=1) == ()


def test_trials_of_one_run_count_once() -> None:
    trials = (Trial(0, (1,), (2, 3)), Trial(0, (2,), (1, 3)), Trial(4, (1,), (2, 3)))
    slower, same, unsure = ({"a": word, "b": Word.SAME} for word in (Word.REGRESSED, Word.SAME, Word.INCONCLUSIVE))
    outcome = Outcome(trials, (slower, same, unsure))
    assert (outcome.alarm().share, outcome.alarm().runs) == (0.25, 2)  # mean of 1/2 and 0
    assert outcome.caught("a").share == 0.25
    assert outcome.caught().share == 0.125
    assert outcome.inconclusive().share == 0.25  # mean of 0 and 1/2
    assert outcome.caught("c") is None
    assert any_alarm([outcome, Outcome(trials, (same, slower, same))]).share == 0.5  # both trials of run 0


def above(limit: float, sigma: float) -> float:
    """Chance that the ratio of two runs exceeds 1 + `limit`: their logs differ with deviation sqrt(2) sigma."""
    return float(stats.norm.sf(math.log1p(limit) / (math.sqrt(2) * sigma)))


def test_false_alarms_of_a_fixed_limit() -> None:
    sigma = 0.03
    runs = [run.seen("latency_s", 0.0) for run in population(300, [sigma] * CASES)]
    trials = at_random([True] * 300, range(300), k=5, times=10, seed=1)
    found = judge_all(FIXED, trials, Baselines(runs), dict(enumerate(runs)))
    one = above(0.05, sigma)  # 12.5 % of the cases, and with twelve 80 % of the runs
    # A run's trials share one run: the variance of the mean is at most 4 p (1 - p) / runs (Hoeffding 1948).
    assert found.caught().share == pytest.approx(one, abs=4 * math.sqrt(4 * one * (1 - one) / 300 / CASES))
    whole = 1 - (1 - one) ** CASES
    assert found.alarm().share == pytest.approx(whole, abs=4 * math.sqrt(4 * whole * (1 - whole) / 300))
    in_turn = judge_all(FIXED, in_order([True] * 300, 5), Baselines(runs), dict(enumerate(runs)))
    assert in_turn.alarm().share == pytest.approx(whole, abs=4 * math.sqrt(4 * whole * (1 - whole) / 293))


@pytest.mark.parametrize("shift", [0.03, 0.05, 0.1])
def test_detection_of_a_fixed_limit(shift: float) -> None:
    sigma = 0.03
    recorded = population(200, [sigma] * CASES, levels=(0.0, shift), injected=100)
    normal = [run.seen("latency_s", 0.0) for run in recorded]
    slowed = {number: run.seen("latency_s", shift) for number, run in enumerate(recorded[:100])}
    found = judge_all(FIXED, at_random([True] * 200, slowed, k=5, times=10, seed=1), Baselines(normal), slowed)
    expected = float(stats.norm.sf((math.log(1.05) - math.log1p(shift)) / (math.sqrt(2) * sigma)))
    error = math.sqrt(4 * expected * (1 - expected) / 100 / CASES)
    assert found.caught().share == pytest.approx(expected, abs=4 * error)
    assert found.caught(key(3)).share == pytest.approx(expected, abs=4 * error * math.sqrt(CASES))


def test_ours_keeps_its_level_and_catches_what_is_far_beyond_the_noise() -> None:
    sigma, level = 0.002, 0.01 / CASES
    recorded = population(40, [sigma] * CASES, levels=(0.0, 0.003, 0.2), injected=20)
    normal = [run.seen("latency_s", 0.0) for run in recorded]
    rule, trials = ours("", 0.0, level), at_random([True] * 40, range(40), k=10, times=5, seed=1)
    quiet = judge_all(rule, trials, Baselines(normal), dict(enumerate(normal)))
    assert quiet.alarm().share <= 0.01 + 3 * math.sqrt(0.01 * 0.99 / 40)
    slowed = {number: run.seen("latency_s", 0.2) for number, run in enumerate(recorded[:20])}
    found = judge_all(rule, at_random([True] * 40, slowed, k=10, times=5, seed=1), Baselines(normal), slowed)
    assert found.caught().share == 1.0  # a hundred deviations away
    assert found.inconclusive().share == 0.0


def test_the_noisy_case_is_the_inconclusive_one() -> None:
    recorded = population(30, [0.0001] * 11 + [0.2])
    normal = [run.seen("latency_s", 0.0) for run in recorded]
    trials = at_random([True] * 30, range(30), k=10, times=3, seed=1)
    found = judge_all(ours("", 0.05, 0.01 / CASES), trials, Baselines(normal), dict(enumerate(normal)))
    assert found.inconclusive().share == pytest.approx(1 / CASES)
    assert {case for words in found.words for case, word in words.items() if word is Word.INCONCLUSIVE} == {key(11)}


def test_a_baseline_is_learnt_from_once() -> None:
    baselines = Baselines([{"a": flat(1.0 + run / 1000)} for run in range(9)])
    assert baselines[(1, 2)] is baselines[(1, 2)]
    assert baselines[(1, 2)].newest == {"a": flat(1.002)}
    assert baselines[(1, 2)].noise is baselines[(1, 2)].noise


def test_a_case_that_a_re_measurement_lacks_is_not_judged() -> None:
    baselines = Baselines([{"a": flat(1.0), "b": flat(1.0)}] * 2)
    changed = {5: {"a": flat(2.0), "b": flat(2.0)}, 6: {"a": flat(2.0)}, 7: {"a": flat(2.0), "b": flat(2.0)}}
    assert judge_all(FIXED, [Trial(5, (0, 1), (6, 7))], baselines, changed).words == ({"a": Word.REGRESSED},)
