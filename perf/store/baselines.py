"""Baselines: accepted runs of one machine class, as pytest-benchmark JSON under `<root>/<machine
class>/NNNN_name.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.contract import Case
from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.files import locked, write_atomically
from perf.store.rows import from_benchmark

KEEP = 20
"""Runs kept in a baseline beside the oldest: enough for the noise between runs, and few enough to read in a second."""


@dataclass(frozen=True)
class Run:
    """One run as kept: rows by key, and the machine class, hardware and software of that run."""

    path: Path
    rows: Mapping[str, Row]
    machine: Mapping[str, Any]

    @property
    def software(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.machine.get("software", {})
        return found

    @property
    def commit(self) -> str:
        """Git's, of the code that the run measured; empty where it is not known."""
        return str(self.machine.get("commit", ""))

    @property
    def controls(self) -> Mapping[str, float]:
        """Seconds of the control cases by name; empty where the run had none."""
        found: Mapping[str, float] = self.machine.get("controls", {})
        return found


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
    """All runs of a machine class's folder, oldest first; none where there is no folder.

    Raises:
        CoregateError: a file is damaged, or of another machine class than the folder's name.
    """
    found = [read_run(path) for path in _runs(folder)]
    for run in found:
        own = run.machine.get("class", folder.name)
        if own != folder.name:
            raise CoregateError(f"{run.path} is a run of machine class {own}: move it to {folder.with_name(own)}")
    return found


def accept(paths: Sequence[Path], root: Path, reason: str, keep: int = KEEP) -> list[Path]:
    """Append the runs at `paths` to the baseline of their machine class, with the reason in each; all or none.

    Raises:
        CoregateError: a run is damaged, holds no case of ours, does not say its machine class, is of another class than
            the others, or is not fit to be a baseline (`unfit`).
    """
    documents = {path: _acceptable(path) for path in paths}
    classes = sorted({document["machine_info"]["coregate"]["class"] for document in documents.values()})
    if len(classes) != 1:
        raise CoregateError(f"runs of {len(classes)} machine classes, {', '.join(classes)}: accept one class at a time")
    accepted = []
    for path, document in documents.items():
        document["coregate"] = {"reason": reason, "accepted_from": path.name}
        accepted.append(append(document, root / classes[0], path.stem.split("_", 1)[-1], keep))
    return accepted


def _acceptable(path: Path) -> dict[str, Any]:
    run = read_run(path)
    name = run.machine.get("class")
    if not run.rows or not name:
        raise CoregateError(f"{path} holds no case of coregate: record one with pytest --benchmark-autosave")
    why = unfit(run.machine)
    if why:
        raise CoregateError(f"{path} is not fit to be a baseline: {why}")
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    return document


def unfit(machine: Mapping[str, Any]) -> str:
    """Why a run with this `machine_info["coregate"]` is no baseline; empty where it may be one."""
    wrong, contaminated = machine.get("wrong", []), machine.get("contaminated", [])
    if wrong:
        return f"in it {wrong[0]} was wrong" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
    return f"it was disturbed: {contaminated[0]}" if contaminated else ""


def append(document: Mapping[str, Any], folder: Path, name: str, keep: int | None = KEEP) -> Path:
    """Write `document` as the newest run of `folder`, under a lock that other processes take as well, and remove what
    stands between the oldest run (drift is measured from it) and the newest `keep`.

    Raises:
        CoregateError: the folder cannot be written.
    """
    with locked(folder):
        target = next_path(folder, name)
        write_atomically(target, json.dumps(document, indent=1, default=str))
        for old in _runs(folder)[1:-keep] if keep else []:
            old.unlink()
    return target


def next_path(folder: Path, name: str) -> Path:
    numbers = [int(path.name.split("_")[0]) for path in _runs(folder)]
    return folder / f"{max(numbers, default=0) + 1:04}_{name}.json"


def _runs(folder: Path) -> list[Path]:
    """By number, which outgrows its four digits."""
    return sorted(folder.glob("[0-9]*_*.json"), key=lambda path: int(path.name.split("_")[0]))
