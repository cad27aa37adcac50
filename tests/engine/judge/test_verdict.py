"""Verdicts over whole runs: what is compared with what, and by which rule. The noise model's own are in test_noise."""

from __future__ import annotations

import pytest

from perf.judge.verdict import Budgets, compare
from perf.outcome import Row, Verdict, Word


def row(latency_s: float, key: str = "k", workload: str = "w") -> Row:
    return Row(key, {"latency_s": latency_s}, workload=workload)


def runs(*latencies: float, workload: str = "w") -> list[dict[str, Row]]:
    return [{"k": row(value, workload=workload)} for value in latencies]


def judge(
    rows: list[Row],
    baseline: list[dict[str, Row]],
    own: Budgets | None = None,
    again: dict[tuple[str, str], list[float]] | None = None,
) -> list[Verdict]:
    return compare(rows, baseline, own or {}).verdicts(again or {})


@pytest.mark.parametrize(
    ("now", "word"),
    [(1.049, Word.SAME), (1.051, Word.REGRESSED), (0.953, Word.SAME), (0.952, Word.IMPROVED)],  # 1 / 1.05 = 0.95238
)
def test_a_provisional_word_is_by_ratio_and_budget(now: float, word: Word) -> None:
    (found,) = judge([row(now)], runs(1.0))
    assert found.word is word
    assert found.ratio == pytest.approx(now)
    assert found.note == "provisional: 1 of 3 runs in the baseline"


def test_the_baseline_is_the_median_of_its_runs() -> None:
    (found,) = judge([row(2.0)], runs(1.0, 2.0, 100.0))
    assert found.baseline == 2.0


@pytest.mark.parametrize(
    ("again", "word"),
    [
        ([1.2, 1.3], Word.REGRESSED),
        ([1.2, 1.04], Word.INCONCLUSIVE),
        ([0.5, 0.5], Word.INCONCLUSIVE),
        (
            [1.1, 1.35],
            Word.INCONCLUSIVE,
        ),  # log 1.35/1.1 = 0.20 apart from one another, log 1.1 = 0.10 from the baseline
    ],
)
def test_a_provisional_suspect_is_regressed_only_where_every_process_says_so(again: list[float], word: Word) -> None:
    (found,) = judge([row(1.2)], runs(1.0), again={("k", "latency_s"): again})
    assert found.word is word
    assert f"again {again[0] - 1:+.1%}" in found.note


def test_accepted_runs_that_differ_more_than_the_change_leave_it_open() -> None:
    """Two runs, 1.0 and 1.3: their median is 1.15, and 1.4 is 22 % from it and they 30 % from each other."""
    (found,) = judge([row(1.4)], runs(1.0, 1.3))
    assert found.word is Word.INCONCLUSIVE


def test_three_runs_are_judged_by_their_noise_and_not_by_their_ratio() -> None:
    """Runs that differ by 30 % cannot show 10 %, and runs that differ by 0.1 % can: both are over the budget of 5 %."""
    (noisy,) = judge([row(1.1)], runs(0.85, 1.0, 1.15))
    (steady,) = judge([row(1.1)], runs(0.999, 1.0, 1.001))
    assert (noisy.word, steady.word) == (Word.INCONCLUSIVE, Word.REGRESSED)
    assert "too noisy for a budget of 5.0%" in noisy.note


def test_one_run_beside_cases_whose_noise_is_known_is_judged_by_it() -> None:
    """A new case of one run among five of five runs that vary by 10 %: +8 % is over the budget, and is that noise."""
    values = [0.9, 1.1, 1.0, 0.95, 1.05]
    baseline = [{f"o{i}": row(value, key=f"o{i}") for i in range(5)} for value in values]
    (alone,) = judge([row(1.08)], [{"k": row(1.0)}])
    (among,) = judge([row(1.08)], [*baseline[:-1], {**baseline[-1], "k": row(1.0)}])
    assert alone.word is Word.REGRESSED
    assert among.word is Word.INCONCLUSIVE
    assert among.note.endswith("provisional: 1 of 3 runs in the baseline")


def test_a_suspect_that_two_processes_do_not_confirm_is_inconclusive() -> None:
    baseline = runs(0.999, 1.0, 1.001)
    (found,) = judge([row(1.1)], baseline, again={("k", "latency_s"): [1.0, 1.0]})
    assert (found.word, found.note) == (Word.SAME, "+10.0%, again +0.0%, +0.0%")
    (kept,) = judge([row(1.1)], baseline, again={("k", "latency_s"): [1.1, 1.0995]})
    assert kept.word is Word.REGRESSED


def test_noise_is_learnt_from_cases_that_this_run_did_not_measure() -> None:
    """One case of five steady runs alone, and among five unsteady ones: its scale moves towards theirs."""
    steady = [1.0, 1.001, 0.999, 1.0005, 0.9995]
    unsteady = [1.0, 1.3, 0.8, 1.1, 0.9]
    alone = runs(*steady)
    among = [
        {**run, **{f"u{i}": row(value, key=f"u{i}") for i in range(5)}}
        for run, value in zip(alone, unsteady, strict=True)
    ]
    lone = compare([row(1.0)], alone, {}).noise["k", "latency_s"]
    pooled = compare([row(1.0)], among, {}).noise["k", "latency_s"]
    assert pooled.scale > 1.5 * lone.scale


def test_a_cores_budget_comes_first() -> None:
    (found,) = judge([row(1.15)], runs(1.0), {"k": {"latency_s": 0.2}})
    assert (found.word, found.budget) == (Word.SAME, 0.2)


def test_each_budgeted_metric_is_judged_by_its_own_budget() -> None:
    now = Row("k", {"latency_s": 1.03, "device_s": 1.03, "unbudgeted_s": 9.0}, workload="w")
    before = [{"k": Row("k", {"latency_s": 1.0, "device_s": 1.0, "unbudgeted_s": 1.0}, workload="w")}]
    found = {verdict.metric: verdict.word for verdict in judge([now], before)}
    assert found == {"latency_s": Word.SAME, "device_s": Word.REGRESSED}


@pytest.mark.parametrize(("now", "before"), [(0.0, 1.0), (1.0, 0.0)])
def test_zero_is_no_time_and_is_not_judged(now: float, before: float) -> None:
    found = judge([row(now)], runs(before))
    assert [verdict.word for verdict in found] == ([] if now == 0 else [Word.NEW])


@pytest.mark.parametrize(
    ("held", "now", "word"),
    [
        (900e6, 1160e6, Word.SAME),
        (900e6, 1180e6, Word.REGRESSED),
        (24e9, 25.1e9, Word.SAME),
        (24e9, 25.3e9, Word.REGRESSED),
    ],
)
def test_what_a_process_holds_on_the_card_may_grow_by_what_cuda_loads(held: float, now: float, word: Word) -> None:
    """256 MiB are 268 MB, and 5 % of 24 GB are 1.2 GB."""
    kept = {"k": Row("k", {"nvml_peak_bytes": held}, workload="w")}
    (found,) = judge([Row("k", {"nvml_peak_bytes": now}, workload="w")], [kept])
    assert found.word is word


def test_no_run_with_the_case_is_new() -> None:
    (found,) = judge([row(1.0, key="other")], runs(1.0))
    assert found.word is Word.NEW


def test_another_workload_is_incomparable_not_slower() -> None:
    (found,) = judge([row(9.0)], runs(1.0, workload="before"))
    assert found.word is Word.INCOMPARABLE


def test_only_runs_of_the_same_workload_count() -> None:
    (found,) = judge([row(1.0)], [*runs(9.0, workload="before"), *runs(1.0)])
    assert (found.word, found.baseline) == (Word.SAME, 1.0)


def test_what_may_be_slower_calls_for_a_second_look() -> None:
    """Beside one run each, what is beyond its budget; beside five of 1 % noise, kernel time 4 % above them, within what
    one run may come to by itself, and latency only beyond that."""
    baseline = [{"k": row(1.0), "faster": row(1.0, key="faster")}]
    assert compare([row(1.2), row(0.5, key="faster")], baseline, {}).suspects() == ["k"]
    for metric, value, suspects in (("device_s", 1.04, ["3"]), ("latency_s", 1.04, []), ("latency_s", 1.4, ["3"])):
        noisy = [
            {f"{n}": Row(f"{n}", {metric: 1 + 0.01 * (run - 2)}, workload="w") for n in range(12)} for run in range(5)
        ]
        rows = [Row(key, {metric: now}, workload="w") for key, now in (("3", value), ("4", 1.0))]
        found = compare(rows, noisy, {key: {metric: 0.01} for key in "34"})
        assert found.suspects() == suspects
        if value == 1.04:
            assert [verdict.word for verdict in found.verdicts({})] == [Word.INCONCLUSIVE, Word.INCONCLUSIVE]
    assert compare([], baseline, {}).suspects() == []


def test_small_steps_that_add_up_are_drift() -> None:
    """Six accepted runs, 1 % slower each; the new one is 1.01^6 - 1 = 6.2 % from the oldest and 1 % from the newest."""
    found = compare([row(1.01**6)], runs(*(1.01**i for i in range(6))), {}).drifts()
    assert found == [
        ("k", "latency_s", "+6.2% since the oldest of 6 accepted runs, +1.0% since the newest; a trend of +1.0% a run")
    ]


@pytest.mark.parametrize(
    ("before", "workload", "unseen"),
    [
        ({"device_s": 1.0, "peak_bytes": 5.0}, "w", ["device_s"]),  # memory that did not grow is no quantity
        ({"device_s": 1.0, "cpu_s": 1.0}, "w", ["device_s", "cpu_s"]),
        ({"device_s": 1.0}, "other", []),
        ({"host_s": 1.0}, "w", []),
    ],
)
def test_a_metric_that_was_there_and_is_not_measured_now_is_told(
    before: dict[str, float], workload: str, unseen: list[str]
) -> None:
    accepted = [{"k": Row("k", {"latency_s": 1.0, **before}, workload=workload)}]
    found = [verdict for verdict in judge([row(1.0)], accepted) if verdict.metric != "latency_s"]
    assert [(verdict.metric, verdict.word) for verdict in found] == [(name, Word.INCONCLUSIVE) for name in unseen]
    assert all("was not measured this time" in verdict.note for verdict in found)


@pytest.mark.parametrize(
    ("accepted_s", "word", "said"), [(5e-324, Word.REGRESSED, "+inf%"), (1e308, Word.IMPROVED, "-100.0%")]
)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_values_at_the_ends_of_what_a_float_holds_are_judged(
    accepted_s: float, word: Word, said: str, count: int
) -> None:
    """0.01 / 5e-324 is e to the 740, which no float holds; 0.01 / 1e308 is 1e-310, a change of -1 in all digits."""
    comparison = compare([row(0.01)], runs(*[accepted_s] * count), {})
    (found,) = comparison.verdicts({("k", "latency_s"): [0.01, 0.01]})
    assert found.word is word
    assert said in found.note
    expected = f"{said} since the oldest of 5 accepted runs, {said} since the newest; no steady trend"
    assert comparison.drifts() == ([("k", "latency_s", expected)] if count == 5 else [])


def test_an_accepted_run_at_either_end_leaves_no_case_without_a_word() -> None:
    comparison = compare([row(0.01)], runs(5e-324, 1e308, 0.01, 0.01, 0.01), {})
    (found,) = comparison.verdicts({})
    assert found.word in set(Word)
    ((_, _, line),) = comparison.drifts()
    assert line.startswith("+inf% since the oldest of 5 accepted runs, +0.0% since the newest")
