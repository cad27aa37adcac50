"""The file of recorded restarts: what goes in comes out, a killed writer loses nothing, damage is one line."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from perf.__main__ import main
from perf.errors import CoregateError
from perf.study import plots
from perf.study.ab.records import append, from_line, read, to_line
from tests.engine.study.ab.toys import population, restart


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docs" / "toy-2c.ab.jsonl.gz"


def test_restarts_come_back_as_they_were(path: Path) -> None:
    restarts = [from_line(to_line(one)) for one in population(3, 0.01, levels=(0.0, 0.03), cases=2)]
    for one in reversed(restarts):
        append(path, one)
    assert read(path) == restarts  # oldest first, whatever the order of writing


def test_ratios_are_kept_to_a_millionth(path: Path) -> None:
    append(path, restart(0, {0.0: [0.0123456789]}))
    (point,) = read(path)[0].points
    assert point.found["latency_s"].ratio == 0.012346


def test_a_writer_that_is_killed_leaves_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(path, restart(0, {0.0: [0.0]}))
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        append(path, restart(1, {0.0: [0.0]}))
    assert len(read(path)) == 1


LINE = to_line(restart(0, {0.0: [0.01]}))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": 1}', "KeyError"),
        (LINE.replace('"ratio":0.01', '"ratio":NaN'), "finite number"),
        (LINE.replace('"base_s":0.001', '"base_s":-0.001'), "positive seconds"),
        (LINE.replace("toy00/tiny/eager-fp32/b5/cpu", "toy00"), "case key"),
    ],
)
def test_what_is_no_restart_is_one_line(path: Path, line: str, said: str) -> None:
    path.parent.mkdir()
    path.write_bytes(gzip.compress(line.encode()))
    with pytest.raises(CoregateError, match=said) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_two_machines_in_one_file_are_refused(path: Path) -> None:
    append(path, restart(0, {0.0: [0.0]}))
    append(path, replace(restart(1, {0.0: [0.0]}), machine_class="other"))
    with pytest.raises(CoregateError, match="other and toy-2c"):
        read(path)


def test_the_page_has_a_part_on_comparisons(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    for one in population(24, 0.002, levels=(0.0, 0.03)):
        append(path, one)
    assert main(["study", "--folder", str(path.parent)]) == 0
    text = (path.parent / "README.md").read_text()
    assert "## toy-2c\n\n### A/B, without a baseline (`python -m perf ab`)\n" in text
    assert "A/B, one case in one command: 3% caught in 100.0%" in text
    path.write_bytes(path.read_bytes()[:-9])
    capsys.readouterr()
    assert main(["study", "--folder", str(path.parent)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is damaged" in line
