"""Baselines: accepted runs of one machine class, as pytest-benchmark JSON under `<root>/<machine
class>/NNNN_name.json`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf.contract import Case
from perf.disturbance import disturbed
from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.files import locked, write_atomically
from perf.store.kinds import is_number
from perf.store.machine import machine_of
from perf.store.pruning import needless
from perf.store.rows import FIELD, from_benchmark

KEEP = 20
"""Runs of a case kept in a baseline beside its oldest: enough for the noise between runs, and few enough to read in a
second. Of every case, not of files: a file goes once no case needs it (`perf.store.pruning`)."""

DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
NUMBERED = re.compile(r"[0-9]+_")


@dataclass(frozen=True)
class Run:
    """One run as kept: rows by key, and the machine class, hardware and software of that run. `measured` has by key all
    that a row's timings are summed up to, and `others` the names of benchmarks that are none of ours. `when` it was
    kept, in ISO 8601."""

    path: Path
    rows: Mapping[str, Row]
    machine: Mapping[str, Any]
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    others: frozenset[str] = frozenset()
    when: str = ""

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
        CoregateError: it is unreadable, not pytest-benchmark's JSON, holds a value of another type than it was written
            in, or a case twice.
    """
    try:
        document = json.loads(path.read_text(encoding="utf8"))
        found = [(entry, from_benchmark(entry)) for entry in document["benchmarks"]]
        ours = [(entry, row) for entry, row in found if row is not None]
        for _, row in ours:
            Case.parse(row.key)
        machine = machine_of(document)
        measured = {row.key: _numbers(entry, row) for entry, row in ours}
        others = frozenset(str(entry["fullname"]) for entry, row in found if row is None)
    except CoregateError as error:
        raise CoregateError(f"{path}: {error}") from None
    except DAMAGE as error:
        raise CoregateError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore it from git, or delete it and record again"
        ) from None
    twice = [key for key, count in Counter(row.key for _, row in ours).items() if count > 1]
    if twice:
        raise CoregateError(f"{path} holds {twice[0]} twice: delete the file and record again")
    when = str(document.get("datetime", ""))
    return Run(path, {row.key: row for _, row in ours}, machine, measured, others, when)


def _numbers(entry: Mapping[str, Any], row: Row) -> dict[str, float]:
    """Whether pytest-benchmark kept each round's time or not (`--benchmark-save-data`), these are the same."""
    stats = {f"stats.{name}": value for name, value in entry.get("stats", {}).items() if is_number(value)}
    return {**stats, **row.metrics}


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
        CoregateError: there is no reason; a run is damaged, holds no case of ours, does not say its machine class, is
            of another class than the others, is not fit to be a baseline (`unfit`), or is there already; a file of the
            baseline is damaged.
    """
    if not reason.strip():
        raise CoregateError("--reason is empty: say why these runs are the new normal")
    runs = [_acceptable(path) for path in paths]
    classes = sorted({run.machine["class"] for run in runs})
    if len(classes) != 1:
        raise CoregateError(f"runs of {len(classes)} machine classes, {', '.join(classes)}: accept one class at a time")
    _refuse_known(runs, [])
    folder = root / classes[0]
    with locked(folder):
        _refuse_known(runs, load(folder))
        accepted = _write_all(runs, folder, reason)
        _prune(folder, keep)
    return accepted


def _write_all(runs: Sequence[Run], folder: Path, reason: str) -> list[Path]:
    """Or none: where one cannot be written, those before it are removed again."""
    written: list[Path] = []
    try:
        for run in runs:
            written.append(_write(_with_reason(run.path, reason), folder, run.path.stem.split("_", 1)[-1]))
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return written


def _with_reason(path: Path, reason: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    return {**document, FIELD: {"reason": reason, "accepted_from": path.name}}


def _refuse_known(runs: Sequence[Run], accepted: Sequence[Run]) -> None:
    """A run is one value. The same value twice would read as a machine without noise.

    Raises:
        CoregateError: a run is among the `accepted`, or twice among `runs`.
    """
    for position, run in enumerate(runs):
        for known in (*accepted, *runs[:position]):
            if same(run, known):
                raise CoregateError(f"{run.path} is the same run as {known.path}: accept runs of fresh processes, once")


def same(run: Run, other: Run) -> bool:
    """Whether both are of one process: they share cases, and each of those has the same numbers to the last digit.
    Names, dates, reasons and cases that only one of them has do not matter."""
    shared = run.measured.keys() & other.measured.keys()
    return bool(shared) and all(run.measured[key] == other.measured[key] for key in shared)


def _acceptable(path: Path) -> Run:
    run = read_run(path)
    name = run.machine.get("class")
    if not run.rows or not name:
        raise CoregateError(f"{path} holds no case of coregate: record one with pytest --benchmark-autosave")
    why = unfit(run.machine) or _disturbed(run)
    if why:
        raise CoregateError(f"{path} is not fit to be a baseline: {why}")
    return run


def unfit(machine: Mapping[str, Any]) -> str:
    """Why a run with this `machine_info["coregate"]` is no baseline; empty where it may be one."""
    wrong, contaminated = machine.get("wrong", []), machine.get("contaminated", [])
    if wrong:
        return f"in it {wrong[0]} was wrong" + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
    return f"it was disturbed: {contaminated[0]}" if contaminated else ""


def _disturbed(run: Run) -> str:
    """The same from the rows themselves."""
    found = ((key, disturbed(row.notes)) for key, row in run.rows.items())
    return next((f"it was disturbed: {key}: {why}" for key, why in found if why), "")


def append(document: Mapping[str, Any], folder: Path, name: str, keep: int | None = KEEP) -> Path:
    """Write `document` as the newest run of `folder`, under a lock that other processes take as well, and remove the
    files that no case needs, if `keep` says how many runs it does.

    Raises:
        CoregateError: the folder cannot be written; or a file in it is damaged, which is told when `document` is
            written: it took hours to measure.
    """
    with locked(folder):
        target = _write(document, folder, name)
        if keep:
            _prune(folder, keep)
    return target


def _write(document: Mapping[str, Any], folder: Path, name: str) -> Path:
    target = next_path(folder, name)
    write_atomically(target, json.dumps(document, indent=1, default=str))
    return target


def _prune(folder: Path, keep: int) -> None:
    runs = [read_run(path) for path in _runs(folder)]
    for position in needless([(run.rows, run.others) for run in runs], keep):
        runs[position].path.unlink()


def next_path(folder: Path, name: str) -> Path:
    return folder / f"{max(map(_number, _runs(folder)), default=0) + 1:04}_{name}.json"


def _runs(folder: Path) -> list[Path]:
    """By number, which outgrows its four digits."""
    return sorted((path for path in folder.glob("[0-9]*_*.json") if NUMBERED.match(path.name)), key=_number)


def _number(path: Path) -> int:
    return int(path.name.split("_")[0])
