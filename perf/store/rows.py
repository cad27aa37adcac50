"""Rows inside pytest-benchmark's JSON: a benchmark's `fullname` is the case's key, its
`extra_info["coregate"]` the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perf.errors import CoregateError
from perf.outcome import Row

SCHEMA = 1
FIELD = "coregate"


def to_extra_info(row: Row) -> dict[str, Any]:
    """What goes under `extra_info["coregate"]`. The latency stays in `stats`, where pytest-benchmark keeps it."""
    fields = asdict(row)
    del fields["key"]
    fields["metrics"].pop("latency_s", None)
    return {"schema": SCHEMA, **fields}


def from_benchmark(entry: Mapping[str, Any]) -> Row | None:
    """The row in one entry of `benchmarks`, or None where the entry is somebody else's benchmark.

    Raises:
        CoregateError: the entry is of a newer schema, or a value in it is no positive finite number.
    """
    extra = entry.get("extra_info", {}).get(FIELD)
    if extra is None:
        return None
    if extra["schema"] > SCHEMA:
        raise CoregateError(
            f"{entry['fullname']}: schema {extra['schema']}, this coregate reads {SCHEMA}: upgrade coregate"
        )
    timed = {} if "#" in entry["fullname"] else {"latency_s": entry["stats"]["median"]}
    metrics = {**timed, **extra["metrics"]}
    for name, value in metrics.items():
        if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise CoregateError(f"{entry['fullname']}: {name} is {value!r}, not a number of 0 or more")
    return Row(entry["fullname"], metrics, extra["counters"], extra["notes"], extra["workload"])
