"""Recording restarts from scripted processes: what is measured, in which order, and what a death costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from perf.__main__ import main
from perf.ab.compare import Plan
from perf.ab.interleave import Durations, SideDiedError
from perf.ab.origin import Origin
from perf.errors import CoregateError
from perf.study.ab import record as recording_room
from perf.study.ab.record import Recording, record, recorded
from perf.study.ab.records import Recorded, read
from perf.study.record import LostError

if TYPE_CHECKING:
    from conftest import Project

ONE, TWO = "one/tiny/eager/s/cpu", "two/tiny/eager/s/cpu"
CALL_S = 1e-3


@dataclass
class Script:
    """Pairs of processes on a clock of our own. Starting takes 5 s, building 2, calibrating 1; a call takes 1 ms, and
    each element of extra work 1 µs. `luck` is by side what its processes are slower by; `fails` by number of the start
    and side what it dies of; `words` what `build` says, else ready."""

    luck: Mapping[str, float] = field(default_factory=dict)
    fails: Mapping[tuple[int, str], Exception] = field(default_factory=dict)
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    now: float = 0.0
    starts: int = 0
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    software: Sequence[Mapping[str, str]] = ({"torch": "1"}, {"torch": "2"})

    def clock(self) -> float:
        return self.now

    @contextmanager
    def start(self) -> Iterator[tuple[Process, Process]]:
        self.now += 5.0
        self.starts += 1
        yield Process("base", self), Process("head", self)


@dataclass
class Process:
    side: str
    script: Script

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]:
        self.script.asked.append((f"{self.side} {ask}", fields))
        answers = {"cases": self._cases, "build": self._build, "calibrate": self._calibrate, "run": self._run}
        return answers[ask](fields)

    def _cases(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"cases": {ONE: ["latency_s"], TWO: ["latency_s"]}, "skips": {}}

    def _build(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        if error := self.script.fails.get((self.script.starts, self.side)):
            raise error
        self.script.now += 2.0
        word, why = self.script.words.get(fields["key"], ("ready", ""))
        return {"word": word, "why": why}

    def _calibrate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        self.script.now += 1.0
        levels = [level for level in fields["levels"] if level >= 0.01]
        amounts = [(level, round(1000 * level)) for level in levels]
        return {"amounts": [{"level": n, "elements": count, "shares": {"latency_s": n}} for n, count in amounts]}

    def _run(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        call_s = CALL_S * (1 + self.script.luck.get(self.side, 0.0)) + 1e-6 * fields.get("elements", 0)
        self.script.now += call_s * fields["calls"]
        return {"durations": {"latency_s": [call_s] * fields["calls"]}}

    def run(self, key: str, calls: int) -> Durations:
        found: Durations = self.ask("run", key=key, calls=calls)["durations"]
        return found


def recording(path: Path = Path("/nowhere"), restarts: int = 1, levels: Sequence[float] = (0.03, 0.1)) -> Recording:
    return Recording(path, restarts, levels, Plan(), 7, "toy-2c", {"cpu": "toy"})


def one_restart(script: Script, checked: set[str] | None = None) -> Recorded:
    return recorded(recording(), script, script.clock, Random(3), set() if checked is None else checked)


def test_a_restart_holds_the_ratio_without_extra_work_and_at_every_level() -> None:
    """The head's process is 1 % slower than the base's: that is in every level."""
    restart = one_restart(Script(luck={"head": 0.01}))
    for level in (0.0, 0.03, 0.1):
        assert set(restart.at_level(level)) == {ONE, TWO}
        for point in restart.at_level(level).values():
            assert point.found["latency_s"].ratio == pytest.approx(math.log(1.01 + level))
            assert point.achieved == ({"latency_s": level} if level else {})
    assert (restart.machine_class, restart.hardware, restart.software) == ("toy-2c", {"cpu": "toy"}, {"torch": "2"})


def test_the_time_of_each_part_is_kept() -> None:
    restart = one_restart(Script())
    assert restart.start_s == 5.0
    assert restart.built_s == {ONE: 4.0, TWO: 4.0}  # either side takes 2 s
    for point in restart.at_level(0.0).values():
        # Six quads of four blocks of 20 calls, until the ratio is believed, and three calls of either side before.
        assert point.seconds == pytest.approx((6 * 4 * 20 + 2 * 3) * CALL_S)


def test_a_case_is_measured_as_it_is_before_anything_else_happens_to_its_processes() -> None:
    script = Script()
    one_restart(script)
    of_one = [(ask, fields) for ask, fields in script.asked if fields.get("key") == ONE]
    calibrated = [ask for ask, _ in of_one].index("head calibrate")
    assert not any(fields.get("elements") for _, fields in of_one[:calibrated])
    assert {fields.get("elements", 0) for ask, fields in of_one[calibrated:] if ask == "head run"} == {30, 100}
    assert not any(fields.get("elements") for ask, fields in of_one if ask == "base run")


def test_what_is_not_ready_on_both_sides_is_left_out_with_its_reason() -> None:
    restart = one_restart(Script(words={TWO: ("unsupported", "no axis")}))
    assert {point.case for point in restart.points} == {ONE}
    assert restart.left_out == {TWO: "no axis"}
    with pytest.raises(LostError, match=f"{ONE}: no axis; {TWO}: far off"):
        one_restart(Script(words={ONE: ("unsupported", "no axis"), TWO: ("wrong", "far off")}))


def test_parity_is_checked_once_a_recording() -> None:
    script, checked = Script(), set[str]()
    for _ in range(2):
        one_restart(script, checked)
    asked = [fields["checked"] for ask, fields in script.asked if ask == "head build" and fields["key"] == ONE]
    assert asked == [False, True]


@pytest.fixture
def origins(tmp_path: Path) -> tuple[Origin, Origin]:
    base = Origin("base", "the working tree", Path("/python"), tmp_path)
    return base, replace(base, side="head")


def test_a_restart_that_dies_is_lost_alone(
    tmp_path: Path, origins: tuple[Origin, Origin], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = {(2, "head"): SideDiedError("head", "killed by SIGKILL"), (3, "base"): CoregateError("starts no worker")}
    script = Script(fails=fails)
    monkeypatch.setattr(recording_room, "Sides", lambda *_: script)
    path, told = tmp_path / "docs" / "toy-2c.ab.jsonl.gz", list[str]()
    assert record(recording(path, 4), origins, (), script.clock, told.append) == 2
    assert len(read(path)) == 2
    assert told[1] == "restart 2 of 4 is lost: the head's process ended: killed by SIGKILL"
    assert told[2] == "restart 3 of 4 is lost: starts no worker"
    assert told[3].startswith("restart 4 of 4: 2 cases; 5.0 s starting, 8.0 building, ")
    record(recording(path, 1), origins, (), script.clock, told.append)  # the same command goes on
    assert len(read(path)) == 3


def test_three_that_die_in_a_row_end_it(
    tmp_path: Path, origins: tuple[Origin, Origin], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(fails={(number, "head"): SideDiedError("head", "gone") for number in (1, 2, 3)})
    monkeypatch.setattr(recording_room, "Sides", lambda *_: script)
    with pytest.raises(CoregateError, match="3 restarts in a row gave nothing: the head's process ended: gone"):
        record(recording(tmp_path / "toy.ab.jsonl.gz", 9), origins, (), script.clock, lambda line: None)


def test_a_damaged_file_is_found_before_anything_is_measured(
    tmp_path: Path, origins: tuple[Origin, Origin], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, path = Script(), tmp_path / "toy.ab.jsonl.gz"
    monkeypatch.setattr(recording_room, "Sides", lambda *_: script)
    path.write_bytes(b"no gzip")
    with pytest.raises(CoregateError, match="damaged"):
        record(recording(path), origins, (), script.clock, lambda line: None)
    assert script.starts == 0


@pytest.mark.parametrize("levels", ["x", "-0.1", "3", "nan"])
def test_levels_that_are_none_are_one_line(levels: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "--record-ab", "1", f"--levels={levels}"]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: --levels {levels}: shares between 0 and 1 are wanted")


def test_a_restart_is_recorded_from_two_processes(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With twice the work in one of them, which is there to be seen on any machine: the CPU's clock stands still while
    others run."""
    monkeypatch.chdir(project.path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))
    assert main(["study", "--record-ab", "1", "--levels", "1", "--variant", "eager-fp32"]) == 0
    (path,) = (project.path / "docs" / "gate-study").glob("*.ab.jsonl.gz")
    (restart,) = read(path)
    key = "toy/tiny/eager-fp32/b5/cpu"
    own, slowed = restart.at_level(0.0)[key], restart.at_level(1.0)[key]
    assert set(own.found) == {"latency_s", "cpu_s"}
    assert slowed.found["cpu_s"].ratio - own.found["cpu_s"].ratio > math.log(1.3)
    assert restart.software["torch"]
    assert "no report yet: 1 recorded restart: 4 or more are wanted" in capsys.readouterr().err
