"""`--traces`: one call of each timed case, on a time line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.profiler import profile

from perf.measure.trace import CALL, keep_trace

if TYPE_CHECKING:
    from conftest import Project


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return found


def inside(found: list[dict[str, Any]], name: str) -> int:
    """Events of this name that begin and end within the call's range."""
    (call,) = [event for event in found if event.get("name") == CALL and event.get("ph") == "X"]
    end = call["ts"] + call["dur"]
    own = [event for event in found if event.get("name") == name and event.get("ph") == "X"]
    return sum(call["ts"] <= event["ts"] and event["ts"] + event["dur"] <= end for event in own)


def test_a_trace_holds_one_call(tmp_path: Path) -> None:
    left = torch.ones(4, 4)
    keep_trace(lambda: left.mm(left).mm(left).relu(), "cpu", tmp_path / "new" / "a.json.gz")
    found = events(tmp_path / "new" / "a.json.gz")
    assert (inside(found, "aten::mm"), inside(found, "aten::relu")) == (2, 1)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.json.gz"]


@pytest.mark.parametrize("written", [b"", b'{"traceEvents": [{"ph'])
def test_a_trace_that_is_cut_off_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bytes) -> None:
    """As the profiler leaves it where the disk is full."""
    monkeypatch.setattr(profile, "export_chrome_trace", lambda self, path: Path(path).write_bytes(written))
    with pytest.raises(OSError, match="cut off"):
        keep_trace(lambda: None, "cpu", tmp_path / "a.json.gz")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_usage_error_before_anything_is_measured(project: Project) -> None:
    project.write("traces", "a file")
    result = project.time("--traces=traces")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: cannot write traces: *: name a folder that can be written"])


def test_each_timed_case_leaves_its_trace(project: Project) -> None:
    assert project.time("--shape", "*", "--traces=traces").ret == 0
    files = sorted(path for path in (project.path / "traces").rglob("*") if path.is_file())
    names = [str(path.relative_to(project.path / "traces")) for path in files]
    assert names == [f"toy/tiny/eager-fp32/{shape}/cpu.json.gz" for shape in ("b5", "b9")]
    assert inside(events(files[0]), "aten::linear") == 2


def test_what_goes_wrong_in_tracing_costs_no_row(project: Project) -> None:
    project.core(before="assert not torch.autograd._profiler_enabled(), 'not while profiled'")
    result = project.time("--traces=traces", "--benchmark-json=run.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*toy/tiny/eager-fp32/b5/cpu: no trace was kept: AssertionError: not while profiled*"])
    assert len(json.loads((project.path / "run.json").read_text())["benchmarks"]) == 1


def test_a_wrong_case_leaves_none(project: Project) -> None:
    project.core(between="hidden = hidden + torch.rand(1, device=x.device)")
    project.time("--traces=traces")
    assert not list((project.path / "traces").iterdir())
