"""The command from its arguments to its page, and the page's figures."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest

from perf.__main__ import main
from perf.study import command, plots
from perf.study.analysis import study
from perf.study.command import configured
from perf.study.rates import rate
from perf.study.records import append, read
from perf.study.report import page, targets
from tests.engine.study.toys import key, population, recorded

if TYPE_CHECKING:
    from conftest import Project

LEVELS = (0.0, 0.01, 0.2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    return tmp_path


def fill(folder: Path, runs: int = 14, injected: int = 5) -> Path:
    path = folder / "toy-2c.jsonl.gz"
    for run in population(runs, [0.002] * 4, LEVELS, injected):
        append(path, run)
    return path


def test_the_page_comes_from_recorded_runs_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    assert main(["study", "--folder", str(folder)]) == 0
    text = (folder / "README.md").read_text()
    assert "14 runs, 5 of them with extra work; 4 cases; cpu toy, cores 2." in text
    assert "python -m perf study --record N" in text
    for rule in ("coregate, budget 5%", "pytest-benchmark mean:5%", "TorchBench 7%"):
        # A slowdown of 20 % is 70 deviations of the difference of two runs away: certain for any rule here.
        assert re.search(rf"\| {rule} \| 5 \| .* 100.0% \[47.8, 100.0\] \|$", text, re.MULTILINE)  # 0.025 ** (1/5)
    assert plots.ABSENT in capsys.readouterr().err.splitlines()


def test_the_same_runs_give_the_same_page(folder: Path) -> None:
    runs = read(fill(folder))
    assert page([study(runs)], {}) == page([study(runs)], {})


def test_targets_that_are_met() -> None:
    found = study(population(14, [1e-5] * 4, LEVELS, 5, metric="device_s"))
    alarms, without_budget, caught = targets(found)
    assert alarms.startswith(
        "- device_s, coregate, budget 2%, k = 10: false alarms in 0.0% [0.0, 23.2] of runs drawn, 0.0%"
    )
    assert (
        "a slowdown of 1% caught in 100.0% [47.8, 100.0], 95% wanted: met; 5 runs leave as little as 47.8% possible."
        in caught
    )
    assert without_budget.endswith(": met; 14 runs leave up to 23.2% possible.")


def test_a_slowdown_that_is_missed_names_the_noise_that_hides_it() -> None:
    found = study(population(14, [0.1, 0.2, 0.2, 0.2], LEVELS, 5, metric="device_s"))
    line = targets(found)[-1]
    assert (
        "caught in 0.0% [0.0, 52.2], 95% wanted: **missed** by 95.0 points" in line
    )  # 1 % under a noise of 10 % or more
    visible = found.visible["device_s", 10]
    assert min(visible.values()) > 0.1
    assert f"{sum(sorted(visible.values())[1:3]) / 2:.1%} be seen 8 times in 10 (median over cases)" in line


def test_false_alarms_beyond_the_target_name_the_worst_case() -> None:
    found = study(population(9, [1e-5] * 2))
    ours = next(item for item in found.findings if item.k == 6)  # the largest that nine runs allow
    worse = replace(ours, drawn=rate(0.52, 50), alarming={key(0): rate(0.1, 50), key(1): rate(0.5, 50)})
    (line, *_) = targets(replace(found, findings=[worse if item is ours else item for item in found.findings]))
    assert line.endswith(f": **missed** by 50.0 points; {key(1)} alone alarms in 50.0% of runs drawn.")


def test_a_case_that_is_not_in_every_run_is_named_and_left_out() -> None:
    runs = [recorded(i, {0.0: [1.0, 2.0] if i else [1.0]}) for i in range(9)]
    found = study(runs)
    assert found.cases == (key(0),)
    assert f"Not in every run, and so in none of this: {key(1)}." in page([found], {})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "holds no recorded runs"),
        (["--core", "x"], "--core=x chooses what is recorded: give --record N"),
        (["--record", "-1"], "0 or more"),
        (["--seconds", "0"], "more than 0"),
    ],
)
def test_usage_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main(["study", "--folder", str(folder), *arguments]) == 4
    assert said in (lines := capsys.readouterr().err.splitlines())[0]
    assert len(lines) == 1


@pytest.mark.parametrize("runs", [1, 5])
def test_too_few_runs_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str], runs: int) -> None:
    fill(folder, runs)
    assert main(["study", "--folder", str(folder)]) == 4
    assert "6 or more are wanted" in capsys.readouterr().err


def test_a_file_cut_short_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fill(folder)
    path.write_bytes(path.read_bytes()[:-9])
    assert main(["study", "--folder", str(folder)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is damaged" in line


def test_an_interrupted_recording_says_that_it_can_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_record", stopped)
    assert main(["study", "--folder", str(folder), "--record", "3"]) == 2
    assert capsys.readouterr().err == "interrupted: what is recorded stays; the same command goes on\n"


def test_pictures_hold_the_figures_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, pyplot, figure, axis = ModuleType("matplotlib"), MagicMock(), MagicMock(), MagicMock()
    library.use, library.rcParams, library.pyplot = MagicMock(), {}, pyplot  # type: ignore[attr-defined]
    pyplot.subplots.return_value = (figure, [[axis]])
    monkeypatch.setitem(sys.modules, "matplotlib", library)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    found = study(population(14, [0.002] * 4, LEVELS, 5))
    assert plots.draw(found, tmp_path) == ["toy-2c-alarms.svg", "toy-2c-detection.svg"]
    assert [call.args[0] for call in figure.savefig.call_args_list] == [
        tmp_path / "toy-2c-alarms.svg",
        tmp_path / "toy-2c-detection.svg",
    ]
    first = found.of("latency_s", 10)[0]
    assert axis.plot.call_args_list[0].args == ([0.01, 0.2], [first.caught[0.01].share, first.caught[0.2].share])
    assert axis.barh.call_args.args[0][-1] == first.rule


def test_cases_are_chosen_as_pytest_chooses_them(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    options = configured(["--variant=eager-*", "--matrix=full"])
    assert options.core_folders == (project.path / "mycores",)
    assert (options.selection.variants, options.selection.matrix) == (("eager-*",), "full")
    assert options.selection.devices == ("cpu",)  # from the project's own addopts


def test_a_run_is_recorded_in_a_process_of_its_own(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.path)
    quick = ("--seconds", "0.001", "--variant", "eager-fp32", "--injected-runs", "1")
    assert main(["study", "--record", "1", *quick]) == 0
    (path,) = (project.path / "docs" / "gate-study").glob("*.jsonl.gz")
    (run,) = read(path)
    assert {point.case for point in run.points} == {"toy/tiny/eager-fp32/b5/cpu"}
    assert set(run.points[0].metrics) == {"latency_s", "cpu_s"}
    assert run.software["torch"]
    assert set(run.controls) == {"matmul", "copy", "launches"}
    assert "no report yet" in capsys.readouterr().err
