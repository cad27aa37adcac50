"""What was recorded, by machine class: accepted runs, and result files of runs, graph counts and placements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.baselines import DAMAGE, read_run

UNTOLD = "command not recorded"


@dataclass(frozen=True)
class Record:
    """One file: its rows by key, on which machine, when (ISO 8601, or empty) and by which command they were made. A
    graph count's or a placement's rows are under `graphs:` or `placement:` and its name, and have counters alone.
    """

    path: Path
    machine: str
    device: str
    command: str
    rows: Mapping[str, Row]
    when: str = ""


def gather(baselines: Path, results: Path) -> list[Record]:
    """Accepted runs below `baselines`, and the files in `results` and its folders, in the order in which they were
    made; first, by name, those of which that is not known.

    Raises:
        CoregateError: a file is damaged, or of no kind that is known here.
    """
    found = [*map(_run, sorted(baselines.glob("*/*.json"))), *map(read_record, sorted(results.rglob("*.json")))]
    return sorted(found, key=lambda record: record.when)


def read_record(path: Path) -> Record:
    """A pytest-benchmark file, a graph report or a placement report.

    Raises:
        CoregateError: it is none of them.
    """
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        if "benchmarks" in document:
            return _run(path)
        kind = "placement" if "onnxruntime" in document else "graphs"
        rows = {f"{kind}:{item['name']}": _counted(f"{kind}:{item['name']}", item) for item in document["rows"]}
        made = {name: str(value) for name, value in dict(document.get("made", {})).items()}
    except DAMAGE as error:
        raise CoregateError(
            f"{path} is no result ({type(error).__name__}: {error}): record it again, or move it out of the folder"
        ) from None
    return Record(path, made.get("machine", "any"), made.get("device", ""), made.get("command", UNTOLD), rows)


def _run(path: Path) -> Record:
    run = read_run(path)
    device = "cuda" if "gpu" in run.machine.get("hardware", {}) else "cpu"
    name, command = run.machine.get("class", path.parent.name), run.machine.get("command", UNTOLD)
    return Record(path, name, device, command, run.rows, run.when)


def _counted(key: str, item: Mapping[str, Any]) -> Row:
    levels = {f"nodes_at_{level}": nodes for level, nodes in item.get("levels", {}).items()}
    return Row(
        key,
        {},
        {name: int(value) for name, value in {**item["counters"], **levels}.items()},
        {"providers": ", ".join(item.get("providers", ()))},
    )
