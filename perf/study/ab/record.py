"""Recording: restarts of a comparison of the working tree with itself, each appended as soon as it is there.

A restart is what `perf.ab.compare` does in one: two fresh processes, every case built once in both, blocks interleaved
until the ratio is known. Each case is first measured as it is, as a comparison would have done; then the head's process
calibrates extra work, and the same processes are measured again at each level, in an order drawn by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from perf.ab.compare import Pair, Plan, build, common
from perf.ab.interleave import Durations, Pace, Side, SideDiedError, measure
from perf.ab.origin import Origin
from perf.ab.sides import Sides
from perf.errors import CoregateError
from perf.measure.latency import Clock
from perf.report.cases import plural
from perf.study.ab.records import Point, Recorded, append, read
from perf.study.record import LostError, Tell, repeated

MODULE = "perf.study.ab.side"


@dataclass(frozen=True)
class Laden:
    """A side each of whose calls does so many `elements` of extra work."""

    side: Side
    elements: int

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]:
        return self.side.ask(ask, **fields)

    def run(self, key: str, calls: int) -> Durations:
        durations: Durations = self.side.ask("run", key=key, calls=calls, elements=self.elements)["durations"]
        return durations


@dataclass
class Recorder:
    """`plan` is that of the comparisons to be replayed, whose pace it sets; `clock` gives monotonic seconds. `checked`
    are cases that were at parity on both sides in a restart before."""

    levels: Sequence[float]
    plan: Plan
    clock: Clock
    dice: Random
    checked: set[str]
    built_s: dict[str, float] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def visit(self, pair: Pair) -> None:
        """All cases that both sides have, in their order; one that is not ready on both is left out, with its reason.

        Raises:
            SideDiedError: a process ended.
            CoregateError: there is no case, or a side says what is wrong.
        """
        findings = common(pair[0].ask("cases"), pair[1].ask("cases"), self.plan.clocks)
        pace = self.plan.pace(len(findings.open))
        self.left_out |= findings.skips
        for key in findings.open:
            begun = self.clock()
            said = build(pair, key, self.dice, key in self.checked)
            self.built_s[key] = self.clock() - begun
            if all(one["word"] == "ready" for one in said):
                self.checked.add(key)
                self.points += self.measured(pair, key, findings.clocks(key), pace)
            else:
                self.left_out[key] = next(one["why"] for one in said if one["word"] != "ready")

    def measured(self, pair: Pair, key: str, names: Sequence[str], pace: Pace) -> Iterator[Point]:
        """As it is, then at each level that the head's process can be given."""
        yield self._point(pair, key, names, pace, 0.0, {})
        amounts = pair[1].ask("calibrate", key=key, levels=list(self.levels))["amounts"] if self.levels else []
        for amount in self.dice.sample(amounts, len(amounts)):
            slowed = pair[0], Laden(pair[1], amount["elements"])
            yield self._point(slowed, key, names, pace, amount["level"], amount["shares"])

    def _point(
        self, pair: Pair, key: str, names: Sequence[str], pace: Pace, level: float, shares: Mapping[str, float]
    ) -> Point:
        begun = self.clock()
        found = measure(*pair, key, names, pace, self.clock, self.dice)
        return Point(key, level, dict(shares), self.clock() - begun, found)


@dataclass(frozen=True)
class Recording:
    """`restarts` more into `path`, of the machine class whose `hardware` it is. `seed` is that of inputs and order,
    `collection` what pytest is given to choose the cases."""

    path: Path
    restarts: int
    levels: Sequence[float]
    plan: Plan
    seed: int
    machine_class: str
    hardware: Mapping[str, str]


class Starts(Protocol):
    """Starts pairs of fresh processes, as `perf.ab.sides.Sides`."""

    @property
    def software(self) -> Sequence[Mapping[str, str]]: ...
    def start(self) -> AbstractContextManager[Pair]: ...


def record(
    recording: Recording, origins: tuple[Origin, Origin], collection: Sequence[str], clock: Clock, tell: Tell
) -> int:
    """How many of the restarts came. What is recorded stays, whatever ends the recording.

    Raises:
        CoregateError: the file is damaged or cannot be written, or three restarts in a row gave nothing.
    """
    if recording.path.exists():
        read(recording.path)
    dice, checked = Random(recording.seed), set[str]()
    with TemporaryDirectory(prefix="coregate-study-", ignore_cleanup_errors=True) as scratch:
        sides = Sides(origins, Path(scratch), collection, recording.plan.budget_s, dice, MODULE)

        def one() -> str:
            restart = recorded(recording, sides, clock, dice, checked)
            append(recording.path, restart)
            return _said(restart)

        return repeated(recording.restarts, "restart", one, tell)


def recorded(recording: Recording, sides: Starts, clock: Clock, dice: Random, checked: set[str]) -> Recorded:
    """One restart; cases that are found right are added to `checked`.

    Raises:
        LostError: a process ended or does not start, or no case was timed.
    """
    at, begun = datetime.now(UTC).isoformat(timespec="seconds"), clock()
    recorder = Recorder(recording.levels, recording.plan, clock, dice, checked)
    try:
        with sides.start() as pair:
            start_s = clock() - begun
            recorder.visit(pair)
    except SideDiedError as died:
        raise LostError(f"the {died.side}'s process ended: {died}") from None
    except CoregateError as error:
        raise LostError(str(error)) from None
    if not recorder.points:
        raise LostError("; ".join(f"{key}: {why}" for key, why in recorder.left_out.items()))
    return Recorded(
        at=at,
        seed=recording.seed,
        machine_class=recording.machine_class,
        hardware=recording.hardware,
        software=sides.software[1],
        start_s=start_s,
        built_s=recorder.built_s,
        points=tuple(recorder.points),
        left_out=recorder.left_out,
    )


def _said(restart: Recorded) -> str:
    measuring = sum(point.seconds for point in restart.points)
    cases = plural(len(restart.at_level(0.0)), "case")
    spent = f"{restart.start_s:.1f} s starting, {sum(restart.built_s.values()):.1f} building, {measuring:.1f} measuring"
    return "; ".join([cases, spent, *(f"without {key}: {why}" for key, why in sorted(restart.left_out.items()))])
