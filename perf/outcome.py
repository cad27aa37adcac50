"""What a run learns of a case (a row), and what is said of it beside its baseline (a verdict), as frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class Row:
    """All that one run learnt of one case. Metric names end in their unit (`latency_s`, `peak_bytes`); lower is better.
    `counters` are exact; `notes` are provenance that no verdict reads.
    """

    key: str
    metrics: Mapping[str, float]
    counters: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    workload: str = ""


class Word(StrEnum):
    """What a verdict can say. `WRONG` is a variant that is not at parity and therefore was not timed."""

    SAME = "same"
    IMPROVED = "improved"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NEW = "new"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"
    WRONG = "wrong"


SINCE = "since the newest accepted run: "
"""In a verdict's note, before what else moved."""

FAILING = frozenset({Word.REGRESSED, Word.MISSING, Word.WRONG})


@dataclass(frozen=True)
class Verdict:
    """One metric of one case beside its baseline. `ratio` is now / baseline (above 1 is worse), None without both."""

    key: str
    metric: str
    word: Word
    now: float | None = None
    baseline: float | None = None
    budget: float = 0.0
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.now / self.baseline if self.now is not None and self.baseline else None
