"""`--traces`: one call of each timed case, on a time line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

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


def test_a_folder_that_cannot_be_made_ends_the_run(project: Project) -> None:
    project.write("traces", "a file")
    result = project.time("--traces=traces")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*--traces traces: File exists: name a folder that can be written*"])


def test_each_timed_case_leaves_its_trace(project: Project) -> None:
    assert project.time("--shape", "*", "--traces=traces").ret == 0
    names = sorted(path.name for path in (project.path / "traces").iterdir())
    assert names == [f"toy_tiny_eager-fp32_{shape}_cpu.json.gz" for shape in ("b5", "b9")]
    assert inside(events(project.path / "traces" / names[0]), "aten::linear") == 2


def test_a_wrong_case_leaves_none(project: Project) -> None:
    project.core(between="hidden = hidden + torch.rand(1, device=x.device)")
    project.time("--traces=traces")
    assert not (project.path / "traces").exists()
