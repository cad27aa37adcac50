"""Control cases tell a machine that moved from code that moved.

They are a matrix product, a copy and a chain of launches, and have nothing to do with what is compiled or exported.
Where one moved, every time that rests on it may have moved with it, and re-measuring on that machine says the same
again: such a case is `inconclusive`, whichever way both went. A clock that drops slows one kernel more than another, so
a control speaks for changes up to twice its own beyond the budget; a core that doubled is not excused by a copy that is
3 % slower. Bytes and counts do not depend on the machine's speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from perf.judge.noise import PROVISIONAL
from perf.judge.verdict import compare, with_note
from perf.outcome import Row, Verdict, Word

KEY = "control"
BUDGETS = {"matmul": 0.03, "copy": 0.03, "launches": 0.10}
"""How far a control may be from its accepted runs before the machine has moved. Launches are the host's alone."""

UNKNOWN_NOISE = {"matmul": 0.35, "copy": 0.35, "launches": 1.0}
"""The same beside one or two accepted runs, which do not tell how far apart a control's runs are when nothing moved.
From the runs in docs/gate-study: of all pairs of 53 runs of twelve unchanged cases on two cores, 99 in 100 are within
16 to 33 % by case; of 7 runs on an H100, whose short kernels wait for the host, half the pairs are 12 to 54 % apart.
"""

DEPENDS: Mapping[str, frozenset[str]] = {"device_s": frozenset({"matmul", "copy"})}
"""Kernel time does not wait for the host; every other time depends on all controls."""

REACH = 2.0
"""How many times its own change, on logs, a control speaks for."""

MOVED = frozenset({Word.REGRESSED, Word.IMPROVED})


def moved(now: Mapping[str, float], accepted: Sequence[Mapping[str, float]]) -> list[Verdict]:
    """Of the controls (seconds by name) those that moved, beside the accepted runs' of the same names."""
    baseline = [{KEY: Row(KEY, values)} for values in accepted if values]
    if not now or not baseline:
        return []
    budgets = BUDGETS if len(baseline) >= PROVISIONAL else UNKNOWN_NOISE
    found = compare([Row(KEY, now)], baseline, {KEY: budgets}).verdicts({})
    return [verdict for verdict in found if verdict.word in MOVED]


def excuse(verdicts: Iterable[Verdict], machine: Sequence[Verdict]) -> list[Verdict]:
    """`regressed` and `improved` become `inconclusive` where a control that the metric depends on went the same way."""
    return [_excused(found, machine) for found in verdicts]


def _excused(found: Verdict, machine: Sequence[Verdict]) -> Verdict:
    names = DEPENDS.get(found.metric, frozenset(BUDGETS))
    causes = [control for control in machine if control.metric in names and control.word is found.word]
    if not causes or not found.metric.endswith("_s"):
        return found
    if _size(found) > math.log1p(found.budget) + REACH * max(map(_size, causes)):
        return with_note(found, f"more than the machine, which moved too: {', '.join(map(said, causes))}")
    return with_note(replace(found, word=Word.INCONCLUSIVE), f"the machine moved: {', '.join(map(said, causes))}")


def _size(found: Verdict) -> float:
    return abs(math.log(found.ratio)) if found.ratio else 0.0


def said(control: Verdict) -> str:
    """`matmul +8.0 %`."""
    assert control.ratio is not None
    return f"{control.metric} {control.ratio - 1:+.1%}"
