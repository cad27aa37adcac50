"""Baselines: accepted runs of one machine class, as pytest-benchmark JSON under `<root>/<machine
class>/NNNN_name.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.contract import Case
from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.files import write_atomically
from perf.store.rows import from_benchmark


@dataclass(frozen=True)
class Run:
    """One run as kept: rows by key, and the machine class, hardware and software of that run."""

    path: Path
    rows: Mapping[str, Row]
    machine: Mapping[str, Any]


def read_run(path: Path) -> Run:
    """Read one file.

    Raises:
        CoregateError: it is unreadable, not pytest-benchmark's JSON, or holds a case twice.
    """
    try:
        document = json.loads(path.read_text(encoding="utf8"))
        entries = [row for entry in document["benchmarks"] if (row := from_benchmark(entry)) is not None]
        for row in entries:
            Case.parse(row.key)
        machine = document["machine_info"].get("coregate", {})
    except CoregateError as error:
        raise CoregateError(f"{path}: {error}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CoregateError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore it from git, or delete it and record again"
        ) from None
    twice = [key for key, count in Counter(row.key for row in entries).items() if count > 1]
    if twice:
        raise CoregateError(f"{path} holds {twice[0]} twice: delete the file and record again")
    return Run(path, {row.key: row for row in entries}, machine)


def load(folder: Path) -> list[Run]:
    """All runs of a machine class's folder, oldest first; none where there is no folder."""
    return [read_run(path) for path in sorted(folder.glob("[0-9]*_*.json"))]


def accept(path: Path, root: Path, reason: str) -> Path:
    """Append the run at `path` to the baseline of its own machine class, with the reason in it.

    Raises:
        CoregateError: the run is damaged, holds no case of ours, or does not say its machine class.
    """
    run = read_run(path)
    name = run.machine.get("class")
    if not run.rows or not name:
        raise CoregateError(f"{path} holds no case of coregate: record one with pytest --benchmark-autosave")
    document = json.loads(path.read_text(encoding="utf8"))
    document["coregate"] = {"reason": reason, "accepted_from": path.name}
    target = next_path(root / name, path.stem.split("_", 1)[-1])
    write_atomically(target, json.dumps(document, indent=1))
    return target


def next_path(folder: Path, name: str) -> Path:
    numbers = [int(path.name.split("_")[0]) for path in folder.glob("[0-9]*_*.json")]
    return folder / f"{max(numbers, default=0) + 1:04}_{name}.json"
