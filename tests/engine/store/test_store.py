"""Rows and baselines on disk: round trips, refusals, and writes that are whole or not there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.baselines import load, next_path, read_run
from perf.store.files import check_writable, write_atomically
from perf.store.rows import FIELD, from_benchmark
from tests.engine.runs import KEY, entry, write_run


def test_a_row_comes_back_as_it_went(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "0001_a.json", entry()))
    assert run.rows == {KEY: Row(KEY, {"latency_s": 0.5}, {"graphs": 1}, {"n": "x"}, "w")}
    assert run.machine == {"class": "a-cpu-2c"}


def test_somebody_elses_benchmark_is_no_row() -> None:
    assert from_benchmark({"fullname": "test_x.py::test_x", "stats": {"median": 1.0}, "extra_info": {}}) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, "fast", None])
def test_a_value_that_is_no_number_is_refused(tmp_path: Path, bad: Any) -> None:
    broken = entry()
    broken["stats"]["median"] = bad
    with pytest.raises(CoregateError, match=r"latency_s is .*, not a number of 0 or more"):
        read_run(write_run(tmp_path / "0001_a.json", broken))


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    newer = entry()
    newer["extra_info"][FIELD]["schema"] = 99
    with pytest.raises(CoregateError, match="schema 99, this coregate reads 1: upgrade coregate"):
        read_run(write_run(tmp_path / "0001_a.json", newer))


def test_a_case_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match=f"holds {KEY} twice"):
        read_run(write_run(tmp_path / "0001_a.json", entry(), entry()))


def test_a_key_that_is_no_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match="'a/b' is not a case key"):
        read_run(write_run(tmp_path / "0001_a.json", entry(key="a/b")))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"benchmarks": [{}]}', '{"benchmarks": 1, "machine_info": {}}']
)
def test_a_damaged_file_is_one_line_that_says_what_to_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "0001_a.json"
    path.write_text(text)
    with pytest.raises(CoregateError, match=r"0001_a\.json is damaged \(.*\): restore it from git") as raised:
        read_run(path)
    assert "\n" not in str(raised.value)


def test_runs_load_oldest_first_and_hidden_files_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "a-cpu-2c"
    write_run(folder / "0002_b.json", entry(latency_s=2.0))
    write_run(folder / "0001_a.json", entry(latency_s=1.0))
    (folder / ".0003_c.json.xyz.partial").write_text("half a fi")
    assert [run.rows[KEY].metrics["latency_s"] for run in load(folder)] == [1.0, 2.0]
    assert load(tmp_path / "absent") == []


def test_a_run_in_another_classs_folder_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "a-cpu-64c" / "0001_a.json", entry())
    with pytest.raises(CoregateError, match=r"0001_a\.json is a run of machine class a-cpu-2c: move it to .*/a-cpu-2c"):
        load(tmp_path / "a-cpu-64c")


def test_numbers_go_on_after_the_highest(tmp_path: Path) -> None:
    assert next_path(tmp_path, "x").name == "0001_x.json"
    write_run(tmp_path / "0009_a.json", entry())
    assert next_path(tmp_path, "x").name == "0010_x.json"


def test_a_file_without_a_number_is_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "a-cpu-2c"
    path = write_run(folder / "0001_a.json", entry())
    (folder / "0002x_b.json").write_text("{")
    assert [run.path for run in load(folder)] == [path]
    assert next_path(folder, "c").name == "0002_c.json"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_a_folder_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(CoregateError, match=r"cannot write .*: name a folder that can be written"):
        write_atomically(tmp_path / "store" / "a.json", "x")


CHECKING = """
import sys
from pathlib import Path
from perf.store.files import check_writable
for _ in range(1000):
    check_writable(Path(sys.argv[1]))
"""


def test_two_processes_find_out_at_once_that_a_folder_can_be_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHECKING, str(tmp_path / "f")]
    both = [subprocess.Popen(command, cwd=Path(__file__).parents[3], stderr=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate()[1] for process in both] == [b"", b""]
    assert list((tmp_path / "f").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(CoregateError, match=r"f: .*: name a folder that can be written"):
        check_writable(tmp_path / "f")


def test_killed_between_write_and_rename_loses_nothing(tmp_path: Path) -> None:
    """The kill is real: the process stops itself with SIGKILL where it would rename."""
    path = write_run(tmp_path / "a-cpu-2c" / "0001_a.json", entry())
    before = path.read_bytes()
    script = (
        "import os, signal, pathlib\n"
        "from perf.store.files import check_writable, write_atomically\n"
        "pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"write_atomically(pathlib.Path({str(path)!r}), 'new')\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[3], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert [run.path for run in load(path.parent)] == [path]
