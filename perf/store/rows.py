"""Rows inside pytest-benchmark's JSON: a benchmark's `fullname` is the case's key, its
`extra_info["coregate"]` the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.kinds import is_number, is_text, maps_to

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
        CoregateError: the entry is of a newer schema, or a value in it is not what it should be.
    """
    extra = entry.get("extra_info", {}).get(FIELD)
    if extra is None:
        return None
    key = entry["fullname"]
    if extra["schema"] > SCHEMA:
        raise CoregateError(f"{key}: schema {extra['schema']}, this coregate reads {SCHEMA}: upgrade coregate")
    timed = {} if "#" in key else {"latency_s": entry["stats"]["median"]}
    row = Row(key, {**timed, **extra["metrics"]}, extra["counters"], extra["notes"], extra["workload"])
    _check(row)
    return row


def _check(row: Row) -> None:
    for name, value in row.metrics.items():
        if not (is_number(value) and value >= 0):
            raise CoregateError(f"{row.key}: {name} is {value!r}, not a number of 0 or more")
    if row.metrics.get("latency_s") == 0:
        raise CoregateError(f"{row.key}: latency_s is 0: nothing takes no time")
    wanted = {
        "counters": maps_to(is_number)(row.counters),
        "notes": maps_to(is_text)(row.notes),
        "workload": is_text(row.workload),
    }
    wrong = [name for name, is_right in wanted.items() if not is_right]
    if wrong:
        raise CoregateError(f"{row.key}: damaged {wrong[0]}: restore the file from git, or record again")
