"""What TorchDynamo made of each core: a table for people, a file for machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from perf.check.graph_report import GraphReport
from perf.report.documents import dump
from perf.store.files import write_atomically

Rows = Sequence[tuple[str, GraphReport]]
"""A name, such as `core/preset/config`, with what was counted."""

SCHEMA = 1
REASON_WIDTH = 100
_NEVER_CUT = re.compile(r"(?: \[the [^\]]*\])?(?: \(in \S+:\d+\))?$")
HEADINGS = ("graphs", "breaks", "recompiles", "limit hits")


def graph_table(rows: Rows) -> list[str]:
    """A line a row, under it each break as `reason — file:line ×n` and each recompile with its guard; then the sum."""
    if not rows:
        return ["no graphs were counted"]
    width = max(len(name) for name, _ in rows)
    lines = [" " * width + "".join(f"  {heading:>{len(heading)}}" for heading in HEADINGS)]
    for name, report in rows:
        counts = _counts(report)
        lines.append(f"{name:<{width}}" + "".join(f"  {n:>{len(h)}}" for n, h in zip(counts, HEADINGS, strict=True)))
        lines += [f"    {detail}" for detail in _details(report)]
    return [*lines, _sum(rows)]


def write_json(path: Path, rows: Rows, made: Mapping[str, str]) -> None:
    """`{"schema": 1, "torch": version, "made": …, "rows": [{"name": …, "counters": …, "breaks": […], …}]}`; `made` says
    on which machine and by which command.

    Raises:
        CoregateError: `path` cannot be written; what was there is left as it was.
    """
    found = [{"name": name, **report.as_json()} for name, report in rows]
    document = {"schema": SCHEMA, "torch": version("torch"), "made": dict(made), "rows": found}
    write_atomically(path, dump(document))


def _counts(report: GraphReport) -> tuple[int, ...]:
    counters = report.counters()
    return tuple(counters[name] for name in ("graphs", "graph_breaks", "recompiles", "recompile_limit_hits"))


def _details(report: GraphReport) -> Iterator[str]:
    if not report.graphs:
        yield "nothing was compiled: all of it ran eagerly"
    for item in report.breaks:
        yield f"break: {_short(item.reason)} — {item.where}{'' if item.own else ' (library)'} ×{item.count}"
    for change in report.recompiles:
        yield f"recompile: {_short(change.guard)} — {change.where} ×{change.count}"
    if report.limit_hits:
        yield f"recompile limit hit ×{report.limit_hits}: from then on torch runs the function eagerly, without a word"
    if report.cudagraph_skips:
        why = "; ".join(report.skip_reasons) or "torch gave no reason"
        yield f"CUDA graphs skipped ×{report.cudagraph_skips}: {why}"


def _short(text: str) -> str:
    """The explanation is cut, what became of the function and the library's line are not."""
    kept = _NEVER_CUT.search(text)
    said, rest = (text[: kept.start()], kept[0]) if kept else (text, "")
    return (said if len(said) <= REASON_WIDTH else said[: REASON_WIDTH - 1] + "…") + rest


def _sum(rows: Rows) -> str:
    totals = [sum(column) for column in zip(*(_counts(report) for _, report in rows), strict=True)]
    counted = ", ".join(f"{total} {heading}" for total, heading in zip(totals, HEADINGS, strict=True))
    return f"{len(rows)} counted: {counted}"
