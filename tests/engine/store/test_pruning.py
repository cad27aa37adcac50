"""Of every case the oldest run and the newest are kept; a file goes once no case needs it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from perf.errors import CoregateError
from perf.store.baselines import accept, append, load
from tests.engine.runs import KEY, entry, write_run

COLD, OTHER = f"{KEY}#coldstart", KEY.replace("toy", "other")
NUMBERS = count(1)


def night(tmp_path: Path, *keys: str, workload: str = "w", **metrics: float) -> Path:
    """A run of `keys`, each number in it a new one."""
    number = float(next(NUMBERS))
    found = {"latency_s": number, **metrics}
    entries = [entry(key, number, metrics={**found, "cold_s": number}, workload=workload) for key in keys]
    return write_run(tmp_path / "runs" / f"{number:.0f}_r.json", *entries)


def accepted(tmp_path: Path, *runs: Path, keep: int = 20) -> None:
    for run in runs:
        accept([run], tmp_path / "b", "why", keep)


def numbers(tmp_path: Path) -> list[int]:
    return [int(run.path.name.split("_")[0]) for run in load(tmp_path / "b" / "a-cpu-2c")]


def having(tmp_path: Path, key: str) -> int:
    return sum(key in run.rows for run in load(tmp_path / "b" / "a-cpu-2c"))


def test_runs_of_one_core_take_nothing_from_the_others(tmp_path: Path) -> None:
    accepted(tmp_path, *[night(tmp_path, KEY, OTHER) for _ in range(10)])
    accepted(tmp_path, *[night(tmp_path, KEY) for _ in range(20)])
    assert having(tmp_path, OTHER) == 10
    assert numbers(tmp_path) == list(range(1, 31))


def test_a_night_in_two_files_keeps_as_many_nights(tmp_path: Path) -> None:
    """30 nights of 2 files: of each the oldest and the newest 20, which is 42 files; 1 and 2 are the first night."""
    for _ in range(30):
        accepted(tmp_path, night(tmp_path, KEY), night(tmp_path, COLD))
    assert having(tmp_path, KEY) == having(tmp_path, COLD) == 21
    assert numbers(tmp_path) == [1, 2, *range(21, 61)]


def test_a_case_that_came_later_has_its_own_oldest(tmp_path: Path) -> None:
    """Files 1 to 9; the second case is in 3 to 9: 1 and 3 are the oldest, 8 and 9 the newest of both."""
    accepted(tmp_path, *[night(tmp_path, KEY) for _ in range(2)], keep=2)
    accepted(tmp_path, *[night(tmp_path, KEY, OTHER) for _ in range(7)], keep=2)
    assert numbers(tmp_path) == [1, 3, 8, 9]


def test_drift_goes_on_from_the_oldest_run_of_the_present_workload(tmp_path: Path) -> None:
    accepted(tmp_path, *[night(tmp_path, KEY) for _ in range(3)], keep=2)
    accepted(tmp_path, *[night(tmp_path, KEY, workload="another") for _ in range(4)], keep=2)
    assert numbers(tmp_path) == [1, 4, 6, 7]


def test_a_metric_that_came_later_has_its_own_oldest(tmp_path: Path) -> None:
    accepted(tmp_path, *[night(tmp_path, KEY) for _ in range(3)], keep=2)
    accepted(tmp_path, *[night(tmp_path, KEY, device_s=1.0) for _ in range(4)], keep=2)
    assert numbers(tmp_path) == [1, 4, 6, 7]


def test_a_case_that_is_gone_keeps_its_history(tmp_path: Path) -> None:
    accepted(tmp_path, *[night(tmp_path, OTHER) for _ in range(4)], keep=2)
    accepted(tmp_path, *[night(tmp_path, KEY) for _ in range(4)], keep=2)
    assert numbers(tmp_path) == [1, 3, 4, 5, 7, 8]


def test_benchmarks_that_are_none_of_ours_are_kept_alike(tmp_path: Path) -> None:
    folder = tmp_path / "b" / "a-cpu-2c"
    foreign = {"fullname": "test_x.py::test_x", "stats": {"median": 1.0}, "extra_info": {}}
    document = {"machine_info": {"coregate": {"class": "a-cpu-2c"}}, "benchmarks": [foreign]}
    for _ in range(5):
        append(document, folder, "x", keep=2)
    assert numbers(tmp_path) == [1, 4, 5]


def test_what_was_measured_is_written_beside_a_damaged_file(tmp_path: Path) -> None:
    folder = tmp_path / "a-cpu-2c"
    folder.mkdir()
    (folder / "0001_a.json").write_text("{")
    with pytest.raises(CoregateError, match=r"0001_a\.json is damaged"):
        append({"machine_info": {}, "benchmarks": [entry()]}, folder, "b")
    assert sorted(path.name for path in folder.glob("*.json")) == ["0001_a.json", "0002_b.json"]


def test_accept_writes_nothing_beside_a_damaged_file(tmp_path: Path) -> None:
    folder = tmp_path / "b" / "a-cpu-2c"
    folder.mkdir(parents=True)
    (folder / "0001_a.json").write_text("{")
    with pytest.raises(CoregateError, match=r"0001_a\.json is damaged"):
        accepted(tmp_path, night(tmp_path, KEY))
    assert [path.name for path in folder.glob("*.json")] == ["0001_a.json"]
