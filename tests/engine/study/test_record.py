"""Recording: what is appended, what a lost process costs, where a recording goes on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perf import children
from perf.errors import CoregateError
from perf.study.child import Spec
from perf.study.record import LostError, Plan, record, start_process
from perf.study.records import Recorded, read, to_line
from tests.engine.study.toys import key, recorded

SPEC = Spec("/", (), (), "/cache", (key(0),), seed=0, seconds=0.1, levels=(0.05,))


class Processes:
    """Gives runs of one case, but for those numbers that are lost."""

    def __init__(self, *lost: int) -> None:
        self.lost = lost
        self.specs: list[Spec] = []

    def __call__(self, spec: Spec) -> Recorded:
        self.specs.append(spec)
        number = len(self.specs)
        if number in self.lost:
            raise LostError("Killed")
        return recorded(number, {level: [1.0] for level in (0.0, *spec.levels)})


def plan(path: Path, runs: int, injected_runs: int = 2) -> Plan:
    seeds: Iterator[int] = iter(range(100, 200))
    return Plan(path / "toy-2c.jsonl.gz", runs, injected_runs, lambda: next(seeds))


def test_only_the_first_runs_have_extra_work(tmp_path: Path) -> None:
    processes, told = Processes(), list[str]()
    assert record(plan(tmp_path, 4), SPEC, processes, told.append) == 4
    assert [spec.levels for spec in processes.specs] == [(0.05,), (0.05,), (), ()]
    assert [spec.seed for spec in processes.specs] == [100, 101, 102, 103]
    assert [run.levels for run in read(tmp_path / "toy-2c.jsonl.gz")] == [{0.0, 0.05}] * 2 + [{0.0}] * 2
    assert told[0].startswith("run 1 of 4: 1 cases, with extra work")


def test_a_second_recording_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    record(plan(tmp_path, 1), SPEC, Processes(), lambda line: None)
    processes = Processes()
    record(plan(tmp_path, 3), SPEC, processes, lambda line: None)
    assert [spec.levels for spec in processes.specs] == [(0.05,), (), ()]  # one of two is there
    other = Processes()
    record(plan(tmp_path, 2), replace(SPEC, keys=(key(0), key(1))), other, lambda line: None)
    assert [spec.levels for spec in other.specs] == [(0.05,), (0.05,)]  # those runs lack a case that is wanted now


def test_a_killed_process_loses_one_run(tmp_path: Path) -> None:
    told = list[str]()
    assert record(plan(tmp_path, 5), SPEC, Processes(2, 4), told.append) == 3
    assert len(read(tmp_path / "toy-2c.jsonl.gz")) == 3
    assert told[1] == "run 2 of 5 is lost: Killed"


def test_three_in_a_row_end_it_and_what_came_before_stays(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match="3 runs in a row gave nothing: Killed"):
        record(plan(tmp_path, 9), SPEC, Processes(2, 3, 4), lambda line: None)
    assert len(read(tmp_path / "toy-2c.jsonl.gz")) == 1


def test_a_damaged_file_is_found_before_anything_is_measured(tmp_path: Path) -> None:
    processes = Processes()
    (tmp_path / "toy-2c.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(CoregateError, match="damaged"):
        record(plan(tmp_path, 1), SPEC, processes, lambda line: None)
    assert processes.specs == []


@pytest.mark.parametrize(
    ("written", "status", "stderr", "said"),
    [
        ("", -signal.SIGKILL, "", "killed by SIGKILL"),
        ("", 1, "Traceback\n  there\nMemoryError: no more\n\n", "MemoryError: no more"),
        (to_line(replace(recorded(0, {}), left_out={"k": "no compiler"})), 0, "", "k: no compiler"),
    ],
)
def test_what_a_process_that_gave_nothing_said(
    monkeypatch: pytest.MonkeyPatch, written: str, status: int, stderr: str, said: str
) -> None:
    def run(command: list[str], *_: object) -> subprocess.CompletedProcess[str]:
        Path(command[-1]).write_text(written)
        return subprocess.CompletedProcess(command, status, "", stderr)

    monkeypatch.setattr(children, "run", run)
    with pytest.raises(LostError, match=said):
        start_process(SPEC)


def test_a_process_that_measured_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], *_: object) -> subprocess.CompletedProcess[str]:
        assert Spec(**__import__("json").loads(Path(command[-2]).read_text())).keys == [key(0)]
        Path(command[-1]).write_text(to_line(recorded(3, {0.0: [2.0]})))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(children, "run", run)
    assert start_process(SPEC) == recorded(3, {0.0: [2.0]})
