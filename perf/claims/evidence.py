"""What was recorded, by machine class: accepted runs, and result files of runs, graph counts and placements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import Any

from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.baselines import read_run

UNTOLD = "command not recorded"


class MissingError(Exception):
    """The records do not have what an answer needs: the key, and of it what."""


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


@dataclass
class Reading:
    """The records of one machine class, oldest first, as one claim reads them: it remembers whose rows it was given. Of
    a key those count that did the newest one's work.
    """

    machine: str
    device: str
    records: Sequence[Record]

    def __post_init__(self) -> None:
        self.used: dict[Path, Record] = {}

    @property
    def preset(self) -> str:
        """What is measured where nobody says: `full` on a GPU, `tiny` on a CPU."""
        return "full" if self.device == "cuda" else "tiny"

    def keys(self, pattern: str) -> list[str]:
        """Keys of rows that match a shell pattern, sorted.

        Raises:
            MissingError: none does.
        """
        found = sorted({key for record in self.records for key in record.rows if fnmatchcase(key, pattern)})
        if not found:
            raise MissingError(pattern)
        return found

    def has(self, key: str, metric: str = "") -> bool:
        return any(key in record.rows and (not metric or metric in record.rows[key].metrics) for record in self.records)

    def value(self, key: str, metric: str = "latency_s") -> float:
        """The median over all runs that have it: a run is one value."""
        found = [row.metrics[metric] for row in self._rows(key) if metric in row.metrics]
        if not found:
            raise MissingError(f"{key}: {metric}")
        return median(found)

    def counter(self, key: str, name: str) -> int:
        """The newest record's; 0 where the row does not count it."""
        return self._rows(key)[-1].counters.get(name, 0)

    def note(self, key: str, name: str) -> str:
        """The newest record's."""
        notes = self._rows(key)[-1].notes
        if name not in notes:
            raise MissingError(f"{key}: {name}")
        return notes[name]

    def _rows(self, key: str) -> list[Row]:
        having = [record for record in self.records if key in record.rows]
        if not having:
            raise MissingError(key)
        work = having[-1].rows[key].workload
        same = [record for record in having if record.rows[key].workload == work]
        self.used |= {record.path: record for record in same}
        return [record.rows[key] for record in same]


def gather(baselines: Path, results: Path) -> list[Record]:
    """Accepted runs below `baselines`, and the files in `results` and its folders, in the order in which they were
    made; first, by name, those of which that is not known.

    Raises:
        CoregateError: a file is damaged, or of no kind that is known here.
    """
    found = [*map(_run, sorted(baselines.glob("*/*.json"))), *map(read_record, sorted(results.rglob("*.json")))]
    return sorted(found, key=lambda record: record.when)


def readings(records: Iterable[Record]) -> list[Reading]:
    """One a machine class, sorted; those with a GPU first."""
    by_machine: dict[str, list[Record]] = {}
    for record in records:
        by_machine.setdefault(record.machine, []).append(record)
    found = [Reading(name, _device(group), group) for name, group in sorted(by_machine.items())]
    return sorted(found, key=lambda reading: reading.device != "cuda")


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
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
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


def _device(records: Sequence[Record]) -> str:
    return "cuda" if any(record.device == "cuda" for record in records) else "cpu"
