"""The table and the file, from reports written out by hand."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from perf.check.graph_report import Break, GraphReport, Recompile
from perf.errors import CoregateError
from perf.report.graphs import REASON_WIDTH, graph_table, write_json

PASSES = GraphReport(1, (), (), 0, 0, calls=3)
BROKEN = GraphReport(
    graphs=4,
    breaks=(Break("print", "net.py:12", 3, True), Break("item() (in lib/x.py:7)", "net.py:20", 1, False)),
    recompiles=(Recompile("net.py:10", "n == 1", 2),),
    limit_hits=1,
    cudagraph_skips=2,
    calls=3,
)


def test_a_row_that_passes_is_printed_too() -> None:
    heading, row, total = graph_table([("core/tiny/static", PASSES)])
    assert heading.split() == ["graphs", "breaks", "recompiles", "limit", "hits"]
    assert row.split() == ["core/tiny/static", "1", "0", "0", "0"]
    assert total == "1 counted: 1 graphs, 0 breaks, 0 recompiles, 0 limit hits"


def test_each_break_and_recompile_has_its_place_and_count() -> None:
    lines = graph_table([("a", PASSES), ("b", BROKEN)])
    assert lines[2].split() == ["b", "4", "4", "2", "1"]
    assert [line.strip() for line in lines[3:8]] == [
        "break: print — net.py:12 ×3",
        "break: item() (in lib/x.py:7) — net.py:20 (library) ×1",
        "recompile: n == 1 — net.py:10 ×2",
        "recompile limit hit ×1: from then on torch runs the function eagerly, without a word",
        "CUDA graphs skipped ×2: torch gave no reason",
    ]
    assert lines[8] == "2 counted: 5 graphs, 4 breaks, 2 recompiles, 1 limit hits"


def test_numbers_stand_under_their_headings_whatever_the_names() -> None:
    heading, *rows = graph_table([("short", PASSES), ("a/much/longer-name", BROKEN)])
    for row in (rows[0], rows[1]):
        assert [
            row[end - 1].isdigit() for end in (heading.index(h) + len(h) for h in ("graphs", "breaks", "hits"))
        ] == [True] * 3


def test_nothing_compiled_is_said() -> None:
    assert "nothing was compiled" in graph_table([("a", GraphReport(0, (), (), 0, 0, 1))])[2]


def test_no_rows_is_said() -> None:
    assert graph_table([]) == ["no graphs were counted"]


def test_a_long_reason_is_cut_and_its_places_are_not() -> None:
    ending = " [the whole function runs eagerly] (in lib/a.py:7)"
    reasons = ("x" * 500, "y" * 500 + ending, "z" + ending)
    long = GraphReport(2, tuple(Break(reason, "net.py:1", 1, True) for reason in reasons), (), 0, 0, 1)
    assert [line.strip() for line in graph_table([("a", long)])[2:5]] == [
        f"break: {'x' * (REASON_WIDTH - 1)}… — net.py:1 ×1",
        f"break: {'y' * (REASON_WIDTH - 1)}…{ending} — net.py:1 ×1",
        f"break: z{ending} — net.py:1 ×1",
    ]


def test_the_file_holds_everything(tmp_path: Path) -> None:
    path = tmp_path / "new" / "graphs.json"
    write_json(path, [("a", PASSES), ("b", BROKEN)], {"machine": "m"})
    found = json.loads(path.read_text(encoding="utf8"))
    assert (found["schema"], found["torch"]) == (1, version("torch"))
    assert found["rows"][1] == {
        "name": "b",
        "counters": {"graphs": 4, "graph_breaks": 4, "recompiles": 2, "recompile_limit_hits": 1, "cudagraph_skips": 2},
        "calls": 3,
        "breaks": [
            {"reason": "print", "where": "net.py:12", "count": 3, "own": True},
            {"reason": "item() (in lib/x.py:7)", "where": "net.py:20", "count": 1, "own": False},
        ],
        "recompiles": [{"where": "net.py:10", "guard": "n == 1", "count": 2}],
        "cudagraph_skip_reasons": [],
    }
    assert [item.name for item in path.parent.iterdir()] == ["graphs.json"]


def test_a_path_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "graphs.json", tmp_path / "folder"):
        with pytest.raises(CoregateError, match=r"^cannot write .*$"):
            write_json(path, [("a", PASSES)], {})
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "folder"]
