"""What may be behind a change: software, clocks and counts that moved since the newest accepted run, and the case's
other metrics, which tell the device's part from the host's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from perf.judge.counters import software_moved
from perf.outcome import Row

TELLING = 0.01
"""Another metric of the case that moved by less than 1 % is not worth a word."""

CHOICES = "kernel_choices"
"""The note that says which kernels autotuning chose, and how often: a JSON object."""

DIGEST = "kernel_choices_digest"
"""The note that differs where the choices do."""

NAMED = 3
"""Choices that are named on either side of a change."""

STATE = ("sm_clock", "throttle", "foreign_processes", "compile_cache")
"""Notes on a row that say in which state it was measured."""


def suspects(now: Row, before: Row, metric: str, software: Mapping[str, str], accepted: Mapping[str, str]) -> str:
    """One line, empty where nothing else moved. `before` is the newest accepted row of the case, `software` and
    `accepted` the versions of either run.
    """
    parts = [
        ", ".join(_metrics(now, before, metric)),
        ", ".join(_counters(now, before)),
        ", ".join(_state(now, before)),
        _choices(now, before),
        software_moved(software, accepted),
    ]
    return "; ".join(filter(None, parts))


def tuned_otherwise(now: Row, accepted: Iterable[Row]) -> bool:
    """Whether autotuning chose as it did in none of the accepted rows, where both sides know. The same code compiled
    once more can be another choice (kernel time of Inductor's cases moved by -3.0 to +1.9 % on H100s), and the noise
    between runs that share a cache does not know that.
    """
    known = {row.notes[DIGEST] for row in accepted if DIGEST in row.notes}
    return bool(known) and now.notes.get(DIGEST) not in {None, *known}


def _metrics(now: Row, before: Row, metric: str) -> Iterator[str]:
    for name in sorted((now.metrics.keys() & before.metrics.keys()) - {metric}):
        ratio = now.metrics[name] / before.metrics[name] if before.metrics[name] else 1.0
        if abs(ratio - 1) >= TELLING:
            yield f"{name} {ratio - 1:+.1%}"


def _counters(now: Row, before: Row) -> Iterator[str]:
    for name in sorted({*now.counters, *before.counters}):
        new, old = now.counters.get(name, 0), before.counters.get(name, 0)
        if new != old:
            yield f"{name} {old} → {new}"


def _state(now: Row, before: Row) -> Iterator[str]:
    for name in STATE:
        new, old = now.notes.get(name), before.notes.get(name)
        if new is not None and old is not None and new != old:
            yield f"{name} {old} → {new}"


def _choices(now: Row, before: Row) -> str:
    """`autotuning chose otherwise: extern mm → fused_mm BLOCK_M=64`; empty where either side does not know."""
    if CHOICES not in now.notes or CHOICES not in before.notes:
        return ""
    new, old = Counter(json.loads(now.notes[CHOICES])), Counter(json.loads(before.notes[CHOICES]))
    gone, came = old - new, new - old
    return f"autotuning chose otherwise: {_listed(gone)} → {_listed(came)}" if gone or came else ""


def _listed(choices: Counter[str]) -> str:
    names = [f"{name} ×{count}" if count > 1 else name for name, count in sorted(choices.items())]
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *more]) or "none"
