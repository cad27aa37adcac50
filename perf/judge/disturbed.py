"""A time that was taken beside others' work says nothing of the code: neither slower nor faster is called by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from perf.disturbance import disturbed
from perf.judge.controls import MOVED
from perf.judge.verdict import Drifted, with_note
from perf.outcome import Verdict, Word


def set_aside(verdicts: Iterable[Verdict], notes: Mapping[str, Sequence[Mapping[str, str]]]) -> list[Verdict]:
    """`regressed` and `improved` times become `inconclusive` where the run, or a re-measurement, was disturbed. `notes`
    are those of the run's row and of the rows that measured it again, by key.
    """
    return [_set_aside(found, notes.get(found.key, ())) for found in verdicts]


def undisturbed(drifts: Iterable[Drifted], notes: Mapping[str, Sequence[Mapping[str, str]]]) -> list[Drifted]:
    """Without those of times that were not the case's own; `notes` as above."""
    return [found for found in drifts if not (found[1].endswith("_s") and _why(found[1], notes.get(found[0], ())))]


def _why(metric: str, notes: Sequence[Mapping[str, str]]) -> str:
    return next((said for one in notes if (said := disturbed(one, metric))), "")


def _set_aside(found: Verdict, notes: Sequence[Mapping[str, str]]) -> Verdict:
    if found.word not in MOVED or not found.metric.endswith("_s"):
        return found
    why = _why(found.metric, notes)
    return with_note(replace(found, word=Word.INCONCLUSIVE), f"disturbed: {why}") if why else found
