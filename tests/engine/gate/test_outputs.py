"""What a run is to write: refused before it measures; and where it fails at the end, nothing else is lost by it."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import pytest

from tests.engine.gate_toys import edit, record

if TYPE_CHECKING:
    from conftest import Project

KEY = "toy/tiny/eager-fp32/b5/cpu"
FILES = (
    "--benchmark-json=out/x.json",
    "--report=out/x.md",
    "--graph-report=out/g.json",
    "--placement-report=out/p.json",
)
LATE = """
from pathlib import Path

def pytest_runtest_teardown():
    Path("{name}").mkdir(exist_ok=True)
"""


@pytest.mark.parametrize("option", FILES)
def test_a_folder_that_is_a_file_is_refused_before_anything_is_measured(project: Project, option: str) -> None:
    (project.path / "out").write_text("a file where a folder should be")
    result = project.time(option)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: cannot write out: File exists: name a folder that can be written"])
    result.stdout.no_fnmatch_line("*passed*")


@pytest.mark.parametrize("option", FILES)
def test_a_file_that_is_a_folder_is_refused_before_anything_is_measured(project: Project, option: str) -> None:
    name, _, path = option.partition("=")
    (project.path / path).mkdir(parents=True)
    result = project.time(option)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {name}: {path} is a folder: name a file in it"])
    result.stdout.no_fnmatch_line("*passed*")


def test_a_report_does_not_take_the_place_of_a_device(project: Project) -> None:
    result = project.time("--report=/dev/null")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --report: /dev/null is no file that could be replaced: name another"])


def test_an_empty_path_is_no_file(project: Project) -> None:
    result = project.time("--benchmark-json=")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --benchmark-json: . is a folder: name a file in it"])


def test_a_file_that_may_not_be_written_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "x.json").write_text("{}")
    monkeypatch.setattr("perf.outputs.os.access", lambda path, mode: False)  # who is root may write everything
    result = project.time("--benchmark-json=x.json")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --benchmark-json: x.json cannot be written: change its permissions, or *"])


def test_counters_that_cannot_be_accepted_are_refused_before_anything_is_counted(project: Project) -> None:
    (project.path / "perf").write_text("a file where a folder should be")
    result = project.run("-m", "graphbreaks", "--accept-counters")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: cannot write *: name a folder that can be written"])


def test_folders_that_are_not_there_are_made(project: Project) -> None:
    assert project.time(*FILES[:2]).ret == 0
    assert [entry["fullname"] for entry in json.loads((project.path / "out/x.json").read_text())["benchmarks"]] == [KEY]
    assert sorted(path.name for path in (project.path / "out").iterdir()) == ["x.json", "x.md"]


def test_json_that_fails_at_the_end_takes_neither_verdict_nor_report_nor_kept_run_with_it(project: Project) -> None:
    edit(record(project), latency_s=10.0)
    project.write("late.py", LATE.format(name="run.json"))
    arguments = (
        "-p",
        "late",
        "--benchmark-compare",
        "--benchmark-autosave",
        "--report=r.md",
        "--benchmark-json=run.json",
    )
    result = project.time(*arguments)
    assert result.ret == 4
    said = "error: --benchmark-json=run.json was not written: IsADirectoryError: *run.json*"
    result.stdout.fnmatch_lines(["*compared with 1 accepted run*", said])
    assert "--benchmark-json=run.json was not written" in (project.path / "r.md").read_text()
    assert len(list((project.path / ".benchmarks").glob("*/0001_*.json"))) == 1


def test_a_report_that_fails_at_the_end_is_no_pass(project: Project) -> None:
    project.write("late.py", LATE.format(name="r.md"))
    result = project.time("-p", "late", "--report=r.md")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*eager-fp32*", "error: cannot write r.md: *"])


@pytest.mark.parametrize(("accepted_s", "word", "status"), [(10.0, "improved", 4), (1e-9, "regressed", 1)])
def test_where_pytest_benchmark_does_not_finish_coregate_does(
    project: Project, monkeypatch: pytest.MonkeyPatch, accepted_s: float, word: str, status: int
) -> None:
    def full(session: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    edit(record(project), latency_s=accepted_s)
    monkeypatch.setattr("pytest_benchmark.session.BenchmarkSession.handle_saving", full)
    result = project.time("--benchmark-compare", "--benchmark-autosave", "--report=r.md")
    assert result.ret == status
    said = "error: pytest-benchmark did not finish: OSError: * No space left on device"
    result.stdout.fnmatch_lines([f"*eager-fp32*{word}", "*compared with 1 accepted run*", said])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert "compared with 1 accepted run" in (project.path / "r.md").read_text()
