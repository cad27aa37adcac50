"""Recorded runs as the store has them, made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perf.outcome import Row
from perf.store.rows import FIELD, to_extra_info

KEY = "toy/tiny/eager-fp32/b5/cpu"


def entry(key: str = KEY, latency_s: float = 0.5, **row: Any) -> dict[str, Any]:
    fields = {
        "metrics": {"latency_s": latency_s},
        "counters": {"graphs": 1},
        "notes": {"n": "x"},
        "workload": "w",
    } | row
    return {"fullname": key, "stats": {"median": latency_s}, "extra_info": {FIELD: to_extra_info(Row(key, **fields))}}


def write_run(path: Path, *entries: dict[str, Any], machine: str = "a-cpu-2c", **state: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    info = {"coregate": {"class": machine, **state}}
    path.write_text(json.dumps({"machine_info": info, "benchmarks": list(entries)}))
    return path
