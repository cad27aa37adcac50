"""What of a baseline is kept: of every case its oldest run and its newest. A night is two files, and a run of one core
says nothing of the others, so files are not runs of a case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perf.outcome import Row

Series = tuple[str, str]
"""A key and a metric; the name of a benchmark that is none of ours, and nothing."""


@dataclass
class _Seen:
    files: list[int] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    """By workload, the oldest: drift is measured from it, and only among runs of one workload."""


def needless(runs: Sequence[tuple[Mapping[str, Row], frozenset[str]]], keep: int) -> list[int]:
    """Positions in `runs`, oldest first, that no series needs: each needs its newest `keep`, and the oldest of each
    workload. A run is its rows by key, and the names of the benchmarks in its file that are none of ours. The newest
    run always stays."""
    seen: dict[Series, _Seen] = {}
    for position, (rows, others) in enumerate(runs):
        for series, workload in _series(rows, others):
            of_it = seen.setdefault(series, _Seen())
            of_it.files.append(position)
            of_it.anchors.setdefault(workload, position)
    needed = {position for found in seen.values() for position in (*found.files[-keep:], *found.anchors.values())}
    return sorted(set(range(len(runs) - 1)) - needed)


def _series(rows: Mapping[str, Row], others: frozenset[str]) -> Iterator[tuple[Series, str]]:
    for key, row in rows.items():
        yield from (((key, metric), row.workload) for metric in row.metrics)
    yield from (((name, ""), "") for name in others)
