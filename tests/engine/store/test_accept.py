"""Accepting runs: appended to their class, the newest kept, the unfit refused, and nothing lost to a second process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perf.__main__ import main
from perf.errors import CoregateError
from perf.store.baselines import accept, append, load, read_run
from tests.engine.runs import KEY, entry, write_run

ROOT = Path(__file__).parents[3]


def test_accept_appends_to_the_runs_own_class_with_the_reason(tmp_path: Path) -> None:
    run = write_run(tmp_path / ".benchmarks" / "0004_nightly.json", entry())
    (accepted,) = accept([run], tmp_path / "baselines", "new driver")
    assert accepted == tmp_path / "baselines" / "a-cpu-2c" / "0001_nightly.json"
    assert json.loads(accepted.read_text())["coregate"] == {"reason": "new driver", "accepted_from": run.name}
    assert read_run(accepted).rows == read_run(run).rows


def test_accept_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "0001_a.json", entry())
    assert main(["accept", str(run), "--reason", "first", "--baselines", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b" / "a-cpu-2c" / "0001_a.json").is_file()
    assert main(["accept", str(tmp_path / "absent.json"), "--reason", "first"]) == 4
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / 'absent.json'} is damaged (FileNotFoundError")


def test_a_run_without_cases_is_not_accepted(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match="holds no case of coregate"):
        accept([write_run(tmp_path / "0001_a.json")], tmp_path / "b", "why")
    assert not (tmp_path / "b").exists()


def test_one_unfit_run_keeps_all_of_them_out(tmp_path: Path) -> None:
    good = write_run(tmp_path / "0001_a.json", entry())
    wrong = write_run(tmp_path / "0002_b.json", entry(), wrong=["x/y", "x/z"])
    with pytest.raises(
        CoregateError, match=r"0002_b\.json is not fit to be a baseline: in it x/y was wrong, and 1 more"
    ):
        accept([good, wrong], tmp_path / "b", "why")
    assert not (tmp_path / "b").exists()


def test_a_run_that_cannot_be_written_takes_those_before_it_back(tmp_path: Path) -> None:
    before = write_run(tmp_path / "b" / "a-cpu-2c" / "0001_old.json", entry(latency_s=0.25))
    good = write_run(tmp_path / "0001_a.json", entry())
    long = write_run(tmp_path / f"{'n' * 245}.json", entry(latency_s=0.75))  # a number more, and it is too long
    with pytest.raises(CoregateError, match="File name too long"):
        accept([good, long], tmp_path / "b", "why")
    assert list(before.parent.glob("*.json")) == [before]


def test_a_disturbed_run_is_refused_with_what_disturbed_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "0001_a.json", entry(), contaminated=["k: 2 other processes on the card"])
    with pytest.raises(CoregateError, match="it was disturbed: k: 2 other processes on the card"):
        accept([run], tmp_path / "b", "why")


def test_a_disturbed_row_tells_by_itself(tmp_path: Path) -> None:
    run = write_run(tmp_path / "0001_a.json", entry(notes={"waited_for_others": "0.40"}))
    with pytest.raises(CoregateError, match=f"it was disturbed: {KEY}: others had the processor for 40% of the time"):
        accept([run], tmp_path / "b", "why")


def test_runs_of_two_classes_are_refused(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / f"000{i}_a.json", entry(), machine=f"class-{i}") for i in (1, 2)]
    with pytest.raises(CoregateError, match="runs of 2 machine classes, class-1, class-2: accept one class at a time"):
        accept(runs, tmp_path / "b", "why")


def test_the_newest_are_kept_and_the_oldest_as_drifts_anchor(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / f"000{i}_r.json", entry(latency_s=float(i))) for i in range(1, 8)]
    accept(runs, tmp_path / "b", "why", keep=3)
    kept = [run.rows[KEY].metrics["latency_s"] for run in load(tmp_path / "b" / "a-cpu-2c")]
    assert kept == [1.0, 5.0, 6.0, 7.0]


def test_numbers_beyond_four_digits_stay_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "a-cpu-2c"
    first = write_run(folder / "9999_a.json", entry(latency_s=1.0))
    second = append(json.loads(first.read_text()), folder, "b")
    assert second.name == "10000_b.json"
    write_run(second, entry(latency_s=2.0))
    assert [run.rows[KEY].metrics["latency_s"] for run in load(folder)] == [1.0, 2.0]


def test_two_accepts_at_once_lose_nothing(tmp_path: Path) -> None:
    """Ten processes are let loose on one folder together; each waits until all are there."""
    script = (
        "import json, pathlib, sys\n"
        "from perf.store.baselines import append\n"
        "document = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "append(document, pathlib.Path(sys.argv[2]), sys.argv[3])\n"
    )
    run, folder = write_run(tmp_path / "0001_a.json", entry()), tmp_path / "b"
    command = [sys.executable, "-c", script, str(run), str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = [subprocess.Popen([*command, f"n{i}"], cwd=ROOT, text=True, **pipes) for i in range(10)]  # type: ignore[call-overload]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.wait() for process in started] == [0] * 10
    names = sorted(path.name for path in folder.glob("*.json"))
    assert [name.split("_")[0] for name in names] == [f"{i:04}" for i in range(1, 11)]
    assert {name.split("_")[1] for name in names} == {f"n{i}.json" for i in range(10)}
