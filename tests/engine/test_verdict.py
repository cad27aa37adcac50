"""First-form verdicts: ratio of medians against a budget."""

from __future__ import annotations

import pytest

from perf.judge.verdict import judge
from perf.outcome import Row, Word


def row(latency_s: float, key: str = "k", workload: str = "w") -> Row:
    return Row(key, {"latency_s": latency_s}, workload=workload)


def runs(*latencies: float, workload: str = "w") -> list[dict[str, Row]]:
    return [{"k": row(value, workload=workload)} for value in latencies]


@pytest.mark.parametrize(
    ("now", "word"),
    [(1.049, Word.SAME), (1.051, Word.REGRESSED), (0.953, Word.SAME), (0.952, Word.IMPROVED)],  # 1 / 1.05 = 0.95238
)
def test_word_by_ratio_and_budget(now: float, word: Word) -> None:
    (found,) = judge([row(now)], runs(1.0), {})
    assert found.word is word
    assert found.ratio == pytest.approx(now)


def test_the_baseline_is_the_median_of_its_runs() -> None:
    (found,) = judge([row(2.0)], runs(1.0, 2.0, 100.0), {})
    assert (found.word, found.baseline, found.note) == (Word.SAME, 2.0, "")


def test_fewer_than_three_runs_are_provisional() -> None:
    (found,) = judge([row(1.0)], runs(1.0, 1.0), {})
    assert found.note == "provisional: 2 of 3 runs in the baseline"


def test_a_cores_budget_comes_first() -> None:
    (found,) = judge([row(1.15)], runs(1.0), {"k": {"latency_s": 0.2}})
    assert (found.word, found.budget) == (Word.SAME, 0.2)


def test_each_budgeted_metric_is_judged_by_its_own_budget() -> None:
    now = Row("k", {"latency_s": 1.03, "device_s": 1.03, "unbudgeted_s": 9.0}, workload="w")
    before = [{"k": Row("k", {"latency_s": 1.0, "device_s": 1.0, "unbudgeted_s": 1.0}, workload="w")}]
    found = {verdict.metric: verdict.word for verdict in judge([now], before, {})}
    assert found == {"latency_s": Word.SAME, "device_s": Word.REGRESSED}


def test_no_run_with_the_case_is_new() -> None:
    (found,) = judge([row(1.0, key="other")], runs(1.0), {})
    assert found.word is Word.NEW


def test_another_workload_is_incomparable_not_slower() -> None:
    (found,) = judge([row(9.0)], runs(1.0, workload="before"), {})
    assert found.word is Word.INCOMPARABLE


def test_only_runs_of_the_same_workload_count() -> None:
    (found,) = judge([row(1.0)], [*runs(9.0, workload="before"), *runs(1.0)], {})
    assert (found.word, found.baseline) == (Word.SAME, 1.0)
