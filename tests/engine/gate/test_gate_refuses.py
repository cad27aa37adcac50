"""Runs that cannot be what was asked for: one line, and an exit status of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.gate_toys import record

if TYPE_CHECKING:
    from conftest import Project


def test_a_card_that_is_not_there_is_a_usage_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    alone = ("-o", "addopts=-p alone --import-mode=importlib")
    result = project.run(*alone, "--device", "cuda", "-m", "latency")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--device cuda: torch finds no CUDA device here*"])
    assert project.run(*alone, "--device", "cud*", "-m", "latency").ret == 4  # a pattern, as elsewhere
    result = project.run("--device", "cuda", "-m", "latency", "--variant", "eager-fp32")  # beside the project's own cpu
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 case: no CUDA device:*"])


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--core", "toi", "--core toi: no such name; near: toy"),
        ("--variant", "eager-fp23", "--variant eager-fp23: no such name; near: eager-fp*"),
    ],
)
def test_an_unknown_name_is_a_usage_error(project: Project, option: str, value: str, said: str) -> None:
    result = project.run(option, value)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "*0001_first.json is damaged (JSONDecodeError: *): restore it from git, or delete it and record again"),
        ('{"benchmarks": 3, "machine_info": {}}', "*0001_first.json is damaged (TypeError: *"),
    ],
)
def test_a_damaged_baseline_is_one_line(project: Project, text: str, said: str) -> None:
    record(project).write_text(text)
    result = project.time("--benchmark-compare")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


def test_an_unwritable_store_is_one_line_before_anything_is_measured(project: Project) -> None:
    project.path.joinpath("perf").write_text("a file where a folder should be")
    result = project.time("--benchmark-save=first")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: cannot write *: name a folder that can be written"])
    result.stdout.no_fnmatch_line("*passed*")


def test_an_input_that_cannot_be_read_ends_the_run_in_one_line(project: Project) -> None:
    """As `fixtures.inputs.photographs` says it of a picture."""
    text = (project.path / "mycores/toy.py").read_text()
    broken = "    from perf.errors import CoregateError\n    raise CoregateError('cannot read cat.png: give a PNG')\n"
    project.write("mycores/toy.py", text.replace("def inputs(shape, seed):\n", f"def inputs(shape, seed):\n{broken}"))
    result = project.time()
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*Exit: cannot read cat.png: give a PNG*"])


def test_comparing_with_benchmarks_off_is_a_usage_error(project: Project) -> None:
    result = project.time("--benchmark-compare", "--benchmark-disable")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --benchmark-compare with benchmarks off measures nothing*"])


def test_comparing_without_timing_anything_is_not_a_pass(project: Project) -> None:
    record(project)
    result = project.run("-m", "graphbreaks", "--benchmark-compare")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["no case was timed: nothing was compared.*"])
