"""The file of recorded runs: what goes in comes out, a killed writer loses nothing, damage is one line."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from perf.errors import CoregateError
from perf.study import records
from perf.study.records import append, read, summarise, to_line
from tests.engine.study.toys import population, recorded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docs" / "toy-2c.jsonl.gz"


def test_runs_come_back_as_they_were(path: Path) -> None:
    runs = population(3, [0.1, 0.2], levels=(0.0, 0.05), injected=1)
    for run in reversed(runs):
        append(path, run)
    assert read(path) == runs  # oldest first, whatever the order of writing


def test_a_writer_that_is_killed_leaves_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(path, recorded(0, {0.0: [1.0]}))
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        append(path, recorded(1, {0.0: [1.0]}))
    assert len(read(path)) == 1


def test_a_file_cut_short_is_one_line(path: Path) -> None:
    append(path, recorded(0, {0.0: [1.0]}))
    append(path, recorded(1, {0.0: [1.0]}))
    whole = path.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2 + 20, 5):
        path.write_bytes(whole[:size])
        with pytest.raises(CoregateError, match="is damaged"):
            read(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": 1}', "KeyError"),
        (to_line(recorded(0, {0.0: [1.0]})).replace('"median":1.0', '"median":NaN'), "positive"),
        (to_line(recorded(0, {0.0: [1.0]})).replace('"median":1.0', '"median":-1'), "positive"),
        (to_line(recorded(0, {0.0: [1.0]})).replace("toy00/tiny/", "toy00/"), "case key"),
    ],
)
def test_what_is_no_run_is_one_line(path: Path, line: str, said: str) -> None:
    path.parent.mkdir()
    path.write_bytes(gzip.compress(line.encode()))
    with pytest.raises(CoregateError, match=said) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_bytes_that_are_no_gzip_are_one_line(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"plain text")
    with pytest.raises(CoregateError, match="damaged"):
        read(path)


def test_two_machines_in_one_file_are_refused(path: Path) -> None:
    append(path, recorded(0, {0.0: [1.0]}))
    append(path, replace(recorded(1, {0.0: [1.0]}), machine_class="other"))
    with pytest.raises(CoregateError, match="other and toy-2c"):
        read(path)


def test_figures_are_over_all_calls_and_samples_are_few() -> None:
    found = summarise([float(i) for i in range(1, 202)])
    assert (found.median, found.mean, found.min) == (101.0, 101.0, 1.0)
    assert len(found.samples) <= records.KEPT_SAMPLES
    assert found.samples[:3] == (1.0, 6.0, 11.0)
    assert summarise([3.0, 1.0]).median == 2.0
    assert summarise([1.23456789e-4]).samples == (1.235e-4,)
