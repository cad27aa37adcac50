"""The records of one machine class, as a claim reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import TypeVar

from perf.claims.evidence import Record
from perf.outcome import Row

Line = TypeVar("Line")
Wants = Mapping[str, Sequence[str]]
"""By key the names of metrics, counters and notes that an answer needs of it."""


class MissingError(Exception):
    """The records do not have what an answer needs: the key, and of it what."""


@dataclass(frozen=True)
class Said:
    """What a reader must know beside an answer: of rows that it leaves out what they lack, by key, and which keys it
    sets beside each other though no record has both; and whose rows it was given."""

    left_out: dict[str, str] = field(default_factory=dict)
    apart: dict[tuple[str, ...], None] = field(default_factory=dict)
    used: dict[Path, Record] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """The records of one machine class, oldest first, as one claim reads them. Of a key those count that did the newest
    one's work.
    """

    machine: str
    device: str
    records: Sequence[Record]
    said: Said = field(default_factory=Said)

    @property
    def used(self) -> Mapping[Path, Record]:
        return self.said.used

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

    def of_one_run(self, wants: Wants) -> Reading:
        """The records that have all of `wants`: numbers of one process are compared, not of two. All records where none
        has, which is said.

        Raises:
            MissingError: something of it is nowhere.
        """
        newest = {key: self._having(key)[-1].rows[key].workload for key in wants}
        for key, names in wants.items():
            for name in names:
                rows = (record.rows[key] for record in self._having(key))
                if not any(row.workload == newest[key] and _holds(row, name) for row in rows):
                    raise MissingError(f"{key}: {name}")
        whole = [
            record
            for record in self.records
            if all(_is_whole(record.rows.get(key), names, newest[key]) for key, names in wants.items())
        ]
        if not whole:
            self.said.apart[tuple(wants)] = None
        return replace(self, records=whole or self.records)

    def by_run(self, keys: Sequence[str], names: Sequence[str]) -> list[list[str]]:
        """Of each record, newest first, those of `keys` of which it has all of `names`, at the newest one's work."""
        newest = {key: self._having(key)[-1].rows[key].workload for key in keys}
        return [
            [key for key in keys if _is_whole(record.rows.get(key), names, newest[key])]
            for record in reversed(self.records)
        ]

    def lines(self, keys: Iterable[str], line: Callable[[str], Line | None]) -> Iterator[tuple[str, Line]]:
        """What `line` makes of each key, where it makes something. A key that lacks what it needs is left out, and its
        lack is said: it does not hide the others."""
        for key in keys:
            try:
                found = line(key)
            except MissingError as lack:
                self.said.left_out[key] = str(lack)
                continue
            if found is not None:
                yield key, found

    def value(self, key: str, metric: str = "latency_s") -> float:
        """The median over all runs that have it: a run is one value."""
        found = [row.metrics[metric] for row in self._rows(key) if metric in row.metrics]
        if not found:
            raise MissingError(f"{key}: {metric}")
        return median(found)

    def counter(self, key: str, name: str, absent: int | None = None) -> int:
        """The newest record's; `absent` where the row does not count it, if that is a number."""
        found = self._rows(key)[-1].counters.get(name, absent)
        if found is None:
            raise MissingError(f"{key}: {name}")
        return found

    def note(self, key: str, name: str) -> str:
        """The newest record's."""
        notes = self._rows(key)[-1].notes
        if name not in notes:
            raise MissingError(f"{key}: {name}")
        return notes[name]

    def number(self, key: str, name: str) -> float:
        """The one that a note begins with, of 0 or more."""
        said = self.note(key, name)
        try:
            found = float(said.split()[0])
        except (ValueError, IndexError):
            found = math.nan
        if not (math.isfinite(found) and found >= 0):
            raise MissingError(f"{key}: {name} ({said!r} is no number of 0 or more)")
        return found

    def _having(self, key: str) -> list[Record]:
        having = [record for record in self.records if key in record.rows]
        if not having:
            raise MissingError(key)
        return having

    def _rows(self, key: str) -> list[Row]:
        having = self._having(key)
        work = having[-1].rows[key].workload
        same = [record for record in having if record.rows[key].workload == work]
        self.said.used.update({record.path: record for record in same})
        return [record.rows[key] for record in same]


def _holds(row: Row, name: str) -> bool:
    return any(name in found for found in (row.metrics, row.counters, row.notes))


def _is_whole(row: Row | None, names: Iterable[str], workload: str) -> bool:
    return row is not None and row.workload == workload and all(_holds(row, name) for name in names)


def readings(records: Iterable[Record]) -> list[Reading]:
    """One a machine class, sorted; those with a GPU first."""
    by_machine: dict[str, list[Record]] = {}
    for record in records:
        by_machine.setdefault(record.machine, []).append(record)
    found = [Reading(name, _device(group), group) for name, group in sorted(by_machine.items())]
    return sorted(found, key=lambda reading: reading.device != "cuda")


def _device(records: Sequence[Record]) -> str:
    return "cuda" if any(record.device == "cuda" for record in records) else "cpu"
