"""Verdicts, first form: the ratio of this run's median to the median of the baseline's runs, against a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from perf.outcome import Row, Verdict, Word

Budgets = Mapping[str, Mapping[str, float]]

BUDGETS: Mapping[str, float] = {
    "latency_s": 0.05,
    "device_s": 0.02,
    "cold_s": 0.15,
    "warm_s": 0.15,
    "artifacts_s": 0.15,
    "load_s": 0.15,
    "peak_bytes": 0.02,
    "rss_peak_bytes": 0.05,
}
"""By how much a metric may grow; one that stands in no budget is kept and not judged. A core's own come first."""

LATENCY = "latency_s"


def judge(rows: Iterable[Row], baseline: Sequence[Mapping[str, Row]], own: Budgets) -> list[Verdict]:
    """A verdict for each budgeted metric of each row. `baseline` are the accepted runs, oldest first; `own` maps keys
    to budgets that override the defaults.
    """
    found: list[Verdict] = []
    for row in rows:
        before = [run[row.key] for run in baseline if row.key in run]
        budgets = {**BUDGETS, **own.get(row.key.partition("#")[0], {})}
        found += [_verdict(row, name, before, budgets[name]) for name in row.metrics if name in budgets]
    return found


def _verdict(row: Row, metric: str, before: Sequence[Row], budget: float) -> Verdict:
    found = Verdict(
        row.key, metric, Word.NEW, row.metrics[metric], budget=budget, note="no run in the baseline has this"
    )
    kept = [old for old in before if metric in old.metrics]
    comparable = [old.metrics[metric] for old in kept if old.workload == row.workload]
    if not kept:
        return found
    if not comparable:
        return replace(found, word=Word.INCOMPARABLE, note="the workload changed: accept a new run")
    centre = median(comparable)
    word = _word(row.metrics[metric] / centre, budget) if centre else Word.INCOMPARABLE
    return replace(found, word=word, baseline=centre, note=_provisional(len(comparable)))


def _word(ratio: float, budget: float) -> Word:
    """The budget is symmetric on the log scale: +5 % is regressed, 1/1.05 is improved."""
    if ratio > 1.0 + budget:
        return Word.REGRESSED
    return Word.IMPROVED if ratio < 1.0 / (1.0 + budget) else Word.SAME


def _provisional(runs: int) -> str:
    return f"provisional: {runs} of 3 runs in the baseline" if runs < 3 else ""


def missing(expected: Iterable[tuple[str, str]]) -> list[Verdict]:
    """(key, why) of every case that the baseline has and this run owes."""
    return [Verdict(key, LATENCY, Word.MISSING, note=why) for key, why in expected]


def wrong(failed: Iterable[tuple[str, str]]) -> list[Verdict]:
    """(key, why) of every case that is not at parity, or did not build, and was therefore not timed."""
    return [Verdict(key, LATENCY, Word.WRONG, note=why) for key, why in failed]
