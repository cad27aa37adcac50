"""Verdicts, first form: the ratio of this run's median to the median of the baseline's runs, against a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from perf.outcome import Row, Verdict, Word

BUDGETS = {"latency_s": 0.05, "device_s": 0.02, "compile_s": 0.15, "peak_bytes": 0.02}
"""By how much a metric may grow. A core's own `budgets` come first."""

GATED = "latency_s"


def judge(rows: Iterable[Row], baseline: Sequence[Mapping[str, Row]], budgets: Mapping[str, float]) -> list[Verdict]:
    """One verdict a row. `baseline` are the accepted runs, oldest first; `budgets` overrides the budget of a
    case's key."""
    return [_verdict(row, [run[row.key] for run in baseline if row.key in run], budgets) for row in rows]


def _verdict(row: Row, before: Sequence[Row], budgets: Mapping[str, float]) -> Verdict:
    now, budget = row.metrics[GATED], budgets.get(row.key, BUDGETS[GATED])
    found = Verdict(row.key, GATED, Word.NEW, now=now, budget=budget, note="no run in the baseline has this case")
    comparable = [old.metrics[GATED] for old in before if old.workload == row.workload]
    if not before:
        return found
    if not comparable:
        return replace(found, word=Word.INCOMPARABLE, note="the workload changed: accept a new run")
    centre = median(comparable)
    return replace(found, word=_word(now / centre, budget), baseline=centre, note=_provisional(len(comparable)))


def _word(ratio: float, budget: float) -> Word:
    """The budget is symmetric on the log scale: +5 % is regressed, 1/1.05 is improved."""
    if ratio > 1.0 + budget:
        return Word.REGRESSED
    return Word.IMPROVED if ratio < 1.0 / (1.0 + budget) else Word.SAME


def _provisional(runs: int) -> str:
    return f"provisional: {runs} of 3 runs in the baseline" if runs < 3 else ""


def missing(expected: Iterable[tuple[str, str]]) -> list[Verdict]:
    """(key, why) of every case that the baseline has and this run owes."""
    return [Verdict(key, GATED, Word.MISSING, note=why) for key, why in expected]


def wrong(failed: Iterable[tuple[str, str]]) -> list[Verdict]:
    """(key, why) of every case that is not at parity, or did not build, and was therefore not timed."""
    return [Verdict(key, GATED, Word.WRONG, note=why) for key, why in failed]
