"""A baseline is runs of fresh processes: the same one twice would read as a machine without noise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perf.__main__ import main
from perf.errors import CoregateError
from perf.store.baselines import accept, load
from perf.store.rows import FIELD
from tests.engine.runs import KEY, entry, write_run

if TYPE_CHECKING:
    from conftest import Project

OTHER = KEY.replace("b5", "b9")


def files_of(root: Path) -> list[Path]:
    return sorted(root.rglob("*.json"))


def test_a_run_is_accepted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, root = write_run(tmp_path / "0001_a.json", entry()), tmp_path / "b"
    command = ["accept", str(run), "--reason", "why", "--baselines", str(root)]
    assert main(command) == 0
    before = files_of(root)
    capsys.readouterr()
    assert main(command) == 4
    said = capsys.readouterr()
    there = root / "a-cpu-2c" / "0001_a.json"
    assert said.err == f"error: {run} is the same run as {there}: accept runs of fresh processes, once\n"
    assert said.out == ""
    assert files_of(root) == before == [there]


@pytest.mark.parametrize("second", ["0001_a.json", "0002_copy.json", "../here/0001_a.json"])
def test_twice_on_one_command_line_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str) -> None:
    run = write_run(tmp_path / "here" / "0001_a.json", entry())
    again = run.parent / second
    if not again.exists():
        shutil.copy(run, again)
    root = tmp_path / "b"
    assert main(["accept", str(run), str(again), "--reason", "why", "--baselines", str(root)]) == 4
    assert capsys.readouterr().err.count("\n") == 1
    assert not root.exists()


def test_an_accepted_file_is_no_other_run(tmp_path: Path) -> None:
    """What `accept` adds to it does not make it another, nor does its new name."""
    (there,) = accept([write_run(tmp_path / "0007_a.json", entry())], tmp_path / "b", "first")
    with pytest.raises(CoregateError, match="is the same run as"):
        accept([shutil.copy(there, tmp_path / "0099_z.json")], tmp_path / "b", "second")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(datetime="2026-01-01T00:00:00+00:00", commit_info={"id": "x"}),
        lambda found: found["benchmarks"][0]["stats"].update(data=[0.4, 0.5, 0.6]),
        lambda found: found["machine_info"]["coregate"].update(controls={}),
        lambda found: found["benchmarks"].pop(),
        lambda found: found["benchmarks"].append(entry(OTHER.replace("b9", "b1"), 3.0)),
    ],
    ids=["dated anew", "with its rounds", "without controls", "a case less", "a case more"],
)
def test_the_same_numbers_are_the_same_run_whatever_stands_beside_them(tmp_path: Path, change: Any) -> None:
    run = write_run(tmp_path / "0001_a.json", entry(), entry(OTHER, 2.0), controls={"copy": 0.1})
    accept([run], tmp_path / "b", "first")
    document = json.loads(run.read_text())
    change(document)
    changed = tmp_path / "0002_b.json"
    changed.write_text(json.dumps(document))
    with pytest.raises(CoregateError, match="is the same run as"):
        accept([changed], tmp_path / "b", "second")


def test_one_equal_number_is_chance(tmp_path: Path) -> None:
    """Medians of short calls, by a clock of whole nanoseconds, meet now and then: not of all cases, nor with all that
    pytest-benchmark keeps of the rounds."""
    first = write_run(tmp_path / "0001_a.json", entry(), entry(OTHER, 2.0))
    one_equal = write_run(tmp_path / "0002_b.json", entry(), entry(OTHER, 2.1))
    another_mean = entry()
    another_mean["stats"]["mean"] = 0.51
    same_median = write_run(tmp_path / "0003_c.json", another_mean)
    other_cases = write_run(tmp_path / "0004_d.json", entry(KEY.replace("b5", "b7")))
    assert len(accept([first, one_equal, same_median, other_cases], tmp_path / "b", "why")) == 4


def test_a_known_run_keeps_the_new_ones_out_as_well(tmp_path: Path) -> None:
    known = write_run(tmp_path / "0001_a.json", entry())
    accept([known], tmp_path / "b", "first")
    new = write_run(tmp_path / "0002_b.json", entry(latency_s=0.6))
    with pytest.raises(CoregateError, match="is the same run as"):
        accept([new, known], tmp_path / "b", "why")
    assert [run.rows[KEY].metrics["latency_s"] for run in load(tmp_path / "b" / "a-cpu-2c")] == [0.5]


@pytest.mark.parametrize("reason", ["", "  ", "\t\n"])
def test_a_reason_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str) -> None:
    run = write_run(tmp_path / "0001_a.json", entry())
    assert main(["accept", str(run), "--reason", reason, "--baselines", str(tmp_path / "b")]) == 4
    assert capsys.readouterr().err == "error: --reason is empty: say why these runs are the new normal\n"
    assert not (tmp_path / "b").exists()


def test_what_pytest_wrote_twice_of_one_run_is_one_run(project: Project) -> None:
    """`--benchmark-json` has each round's time and its own date, `--benchmark-save` neither."""
    written = project.path / "run.json"
    for name in ("first", "second"):
        assert project.time(f"--benchmark-save={name}", f"--benchmark-json={written}").ret == 0
    root = project.path / "perf" / "baselines"
    saved = files_of(root)
    assert [path.name for path in saved] == ["0001_first.json", "0002_second.json"]
    (by_json,) = json.loads(written.read_text())["benchmarks"]
    (by_save,) = json.loads(saved[1].read_text())["benchmarks"]
    assert "data" in by_json["stats"]
    assert "data" not in by_save["stats"]
    assert by_json["extra_info"][FIELD] == by_save["extra_info"][FIELD]
    with pytest.raises(CoregateError, match=r"run\.json is the same run as .*0002_second\.json"):
        accept([written], root, "why")
