"""Where ONNX Runtime ran each case's nodes: a table for people, a file for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perf.check.placement import Placement
from perf.report.cases import align, plural, size
from perf.report.documents import dump
from perf.store.files import write_atomically

Rows = Sequence[tuple[str, Placement]]
"""A case's key, with where its nodes ran."""

SCHEMA = 1
SHOWN = 8
"""Nodes named one by one under a case; further ones are counted. The file has all."""


def placement_table(rows: Rows) -> list[str]:
    """A line a case: the file's nodes, those that ran, on each provider, at each level; under it the nodes that did not
    run where they were asked to, and the copies between devices, by name.
    """
    if not rows:
        return ["no node was placed"]
    providers = sorted({name for _, found in rows for name in (*found.providers, *(n.provider for n in found.nodes))})
    levels = list(dict.fromkeys(level for _, found in rows for level in found.levels))
    headings = [
        "",
        "in file",
        "ran",
        *providers,
        "copies",
        "quantised",
        *(f"at {level}" for level in levels),
        "opset",
        "size",
    ]
    lines = align([headings, *(_line(key, found, providers, levels) for key, found in rows)])
    table = [lines[0]]
    for line, (_, found) in zip(lines[1:], rows, strict=True):
        table += [line, *(f"    {detail}" for detail in _details(found))]
    return table


def write_placements(path: Path, rows: Rows, made: Mapping[str, str]) -> None:
    """`{"schema": 1, "onnxruntime": version, "made": …, "rows": [{"name": …, "providers": …, "counters": …, …}]}`;
    `made` says on which machine and by which command.

    Raises:
        CoregateError: `path` cannot be written; what was there is left as it was.
    """
    found = [{"name": key, **placement.as_json()} for key, placement in rows]
    document = {"schema": SCHEMA, "onnxruntime": _onnxruntime(), "made": dict(made), "rows": found}
    write_atomically(path, dump(document))


def _line(key: str, found: Placement, providers: Sequence[str], levels: Sequence[str]) -> list[str]:
    counted = found.counters()
    return [
        key,
        str(counted["onnx_nodes"]),
        str(counted["ort_nodes"]),
        *(str(counted.get(f"nodes_on_{name}", 0)) for name in providers),
        str(counted["memcpy_nodes"]),
        f"{found.quantized_share:.0%}",
        *(str(found.levels.get(level, "-")) for level in levels),
        str(counted["opset"]),
        size(counted["bytes_on_disk"]),
    ]


def _details(found: Placement) -> Iterator[str]:
    strays = found.strays
    for node in strays[:SHOWN]:
        yield f"{'copy' if node.copies else f'not on {found.providers[0]}'}: {node.op} {node.name} on {node.provider}"
    if len(strays) > SHOWN:
        yield f"and {plural(len(strays) - SHOWN, 'more node')}: see --placement-report"


def _onnxruntime() -> str:
    for name in ("onnxruntime-gpu", "onnxruntime"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
