"""Records made by hand: what is in them is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perf.claims.evidence import Record
from perf.claims.reading import Reading
from perf.outcome import Row

COMMAND = "pytest -m latency"


def row(key: str, latency_s: float | None = None, notes: Mapping[str, str] | None = None, **found: Any) -> Row:
    """`found` are counters where they are whole numbers, else metrics."""
    counters = {name: value for name, value in found.items() if isinstance(value, int)}
    metrics = {name: value for name, value in found.items() if not isinstance(value, int)}
    timed = {} if latency_s is None else {"latency_s": latency_s}
    return Row(key, {**timed, **metrics}, counters, notes or {})


def record(*rows: Row, machine: str = "a-cpu-2c", device: str = "cpu", command: str = COMMAND, at: int = 1) -> Record:
    return Record(Path(f"{machine}-{at}.json"), machine, device, command, {found.key: found for found in rows})


def reading(*rows: Row, device: str = "cpu") -> Reading:
    return Reading("a-machine", device, [record(*rows, device=device)])
