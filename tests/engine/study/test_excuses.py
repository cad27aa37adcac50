"""A control case that moved excuses, in the study as in the gate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perf.outcome import Word
from perf.study.analysis import Bench
from perf.study.excuses import Excuses
from perf.study.rates import Baselines, Trial, judge_all
from perf.study.records import from_line, to_line
from perf.study.rules import median_of, ours, threshold
from tests.engine.study.toys import key, population, recorded

TRIAL = Trial(3, (0, 1, 2), (4, 5))
STILL = {"copy": 1.0, "matmul": 1.0, "launches": 1.0}


def words(controls: dict[str, float], slower: float, rule: str = "ours", metric: str = "latency_s") -> Word:
    """Of a case of 1 ms that is `slower` in the run judged and in both that measure it again."""
    runs = [{key(0): point} for point in map(figure, [1.0, 1.001, 0.999, *[1 + slower] * 3])]
    judge = ours("", 0.05, 0.01) if rule == "ours" else threshold("", median_of, 0.05)
    excuses = Excuses([STILL, STILL, STILL, controls, STILL, STILL], metric)
    outcome = judge_all(judge, [TRIAL], Baselines(runs), dict(enumerate(runs)), excuses)
    return outcome.words[0][key(0)]


def figure(milliseconds: float) -> object:
    return recorded(0, {0.0: [milliseconds * 1e-3]}).points[0].metrics["latency_s"]


def test_a_machine_that_slowed_excuses_what_went_with_it() -> None:
    assert words(STILL, slower=0.12) is Word.REGRESSED
    assert words({**STILL, "copy": 1.10}, slower=0.12) is Word.INCONCLUSIVE
    assert words({**STILL, "copy": 0.90}, slower=0.12) is Word.REGRESSED  # it got faster


def test_a_control_speaks_for_twice_its_own_change_beyond_the_budget() -> None:
    assert words({**STILL, "copy": 1.04}, slower=0.13) is Word.INCONCLUSIVE  # 1.05 × 1.04² = 1.136
    assert words({**STILL, "copy": 1.04}, slower=0.14) is Word.REGRESSED


def test_kernel_time_does_not_wait_for_launches() -> None:
    assert words({**STILL, "launches": 1.5}, slower=0.12) is Word.INCONCLUSIVE
    assert words({**STILL, "launches": 1.5}, slower=0.12, metric="device_s") is Word.REGRESSED


def test_other_rules_know_no_controls() -> None:
    assert words({**STILL, "copy": 1.10}, slower=0.12, rule="fixed") is Word.REGRESSED


def test_runs_without_controls_are_judged_without() -> None:
    assert words({}, slower=0.12) is Word.REGRESSED


def test_how_often_a_control_moved_is_counted_over_runs_in_order() -> None:
    runs = [replace(run, controls=STILL) for run in population(10, [0.01])]
    runs[6] = replace(runs[6], controls={**STILL, "copy": 1.2})
    found = Bench(runs, (key(0),), ("latency_s",), ()).moved(3)
    assert found is not None
    assert (found.share, found.runs) == (pytest.approx(1 / 5), 5)  # runs 3 to 7 have three before and two after
    assert Bench(population(10, [0.01]), (key(0),), ("latency_s",), ()).moved(3) is None


def test_controls_come_back_and_must_be_positive() -> None:
    run = replace(population(1, [0.01])[0], controls=STILL)
    assert from_line(to_line(run)) == run
    with pytest.raises(ValueError, match="positive"):
        from_line(to_line(replace(run, controls={"copy": 0.0})))
