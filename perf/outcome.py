"""What a run learns of a case (a row), and what is said of it beside its baseline (a verdict), as frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

LATENCY, KERNEL_TIME = "latency_s", "device_s"

JUDGED = frozenset({Word.SAME, Word.IMPROVED, Word.REGRESSED})
FAILING = frozenset({Word.REGRESSED, Word.MISSING, Word.WRONG})


@dataclass(frozen=True)
class Verdict:
    """One metric of one case beside its baseline. `ratio` is now / baseline (above 1 is worse), None without both.
    `hidden` is an inconclusive value that the noise explains: nothing was seen, and too little would have been.
    """

    key: str
    metric: str
    word: Word
    now: float | None = None
    baseline: float | None = None
    budget: float = 0.0
    note: str = ""
    hidden: bool = False

    @property
    def ratio(self) -> float | None:
        return self.now / self.baseline if self.now is not None and self.baseline else None


def undecided(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The inconclusive ones that leave a run open. A latency that noise hides does not, where the case's kernel time
    has its word: what waits for a host differs by a fifth between processes every night, and kernels by 0.3 %.
    """
    decided = {found.key for found in verdicts if found.metric == KERNEL_TIME and found.word in JUDGED}
    return [
        found
        for found in verdicts
        if found.word is Word.INCONCLUSIVE and not (found.hidden and found.metric == LATENCY and found.key in decided)
    ]
