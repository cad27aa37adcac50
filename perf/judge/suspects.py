"""What may be behind a change: software, clocks and counts that moved since the newest accepted run, and the case's
other metrics, which tell the device's part from the host's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perf.judge.counters import software_moved
from perf.outcome import Row

TELLING = 0.01
"""Another metric of the case that moved by less than 1 % is not worth a word."""

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
        software_moved(software, accepted),
    ]
    return "; ".join(filter(None, parts))


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
