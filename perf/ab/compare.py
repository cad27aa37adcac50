"""The comparison itself: restarts of both sides, looks between them, and what is found of every case and clock.

Both processes are started afresh for every restart, build each undecided case once, and are never busy both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from typing import Any

from perf.ab.findings import Findings
from perf.ab.interleave import Pace, Side, SideDiedError, measure
from perf.ab.paired import LOOKS, looks
from perf.errors import CoregateError
from perf.outcome import Word

SIDES = ("base", "head")
Pair = tuple[Side, Side]


@dataclass(frozen=True)
class Plan:
    """`resolution` is the smallest relative change that must not pass; `clocks` are those to judge, all where empty;
    `restarts` and `budget_s` are the most there may be of either."""

    resolution: float = 0.03
    restarts: int = LOOKS[-1]
    budget_s: float = 900.0
    clocks: tuple[str, ...] = ()

    def pace(self, cases: int) -> Pace:
        """A restart's noise from within is to be small beside the resolution. Half of the time is for building, and the
        rest is to reach the second look. Four seconds at the most: another restart then tells more than longer ones."""
        share = self.budget_s / 2 / cases / LOOKS[1]
        return Pace(precision=self.resolution / 10, most_s=min(4.0, max(0.2, share)))


@dataclass(frozen=True)
class Course:
    """What a comparison goes by: its plan, a monotonic clock in seconds, when time is up on it, and its dice."""

    plan: Plan
    clock: Callable[[], float]
    deadline: float
    dice: Random

    @property
    def left_s(self) -> float:
        return self.deadline - self.clock()


def compare(
    start: Callable[[], AbstractContextManager[Pair]],
    plan: Plan,
    clock: Callable[[], float],
    dice: Random,
    tell: Callable[[str], None],
) -> Findings:
    """Restart both sides until every test has its word or is given up, `plan.restarts` are done, or time is up. `start`
    starts a pair of fresh processes; `tell` gets a line of progress a restart.

    Raises:
        CoregateError: a side does not start, or the sides have no case in common.
    """
    course = Course(plan, clock, clock() + plan.budget_s, dice)
    with start() as pair:
        findings = common(pair[0].ask("cases"), pair[1].ask("cases"), plan.clocks)
        unfinished = _visit(pair, findings, findings.open, course)

    def restart(number: int) -> None:
        left = findings.open if number > 1 else unfinished
        while left:
            with start() as pair:
                left = _visit(pair, findings, left, course)

    for number, left in enumerate(decided(findings, plan, restart, lambda: course.left_s), 1):
        tell(_progress(number, left, course))
    return findings


def decided(
    findings: Findings, plan: Plan, restart: Callable[[int], None], left_s: Callable[[], float]
) -> Iterator[int]:
    """The rule by which a comparison goes on: `restart(number)` adds the ratios of one restart of every case that is
    open, looks come where they are planned or time is up, and the end where nothing is open. Yields the number of open
    cases after each restart.
    """
    for number in range(1, plan.restarts + 1):
        restart(number)
        late = left_s() <= 0
        if late or number in looks(plan.restarts):
            findings.look(plan.resolution, plan.restarts)
        yield len(findings.open)
        if late or not findings.open:
            break


def common(base: Mapping[str, Any], head: Mapping[str, Any], clocks: Sequence[str]) -> Findings:
    """What there is to find, from the two answers to `cases`.

    Raises:
        CoregateError: no case is in both, or none has such a clock.
    """
    shared = {
        key: [clock for clock in head["cases"][key] if clock in base["cases"][key]]
        for key in head["cases"]
        if key in base["cases"]
    }
    if not shared:
        counts = " and ".join(
            f"{side} has {len(said['cases'])}" for side, said in zip(SIDES, (base, head), strict=True)
        )
        raise CoregateError(f"no case in common: {counts}; widen -k or the patterns, or compare nearer revisions")
    known = sorted({clock for own in shared.values() for clock in own})
    if not set(clocks) <= set(known):
        raise CoregateError(f"--clock {', '.join(sorted(set(clocks) - set(known)))}: there are {', '.join(known)}")
    findings = Findings.of({key: [c for c in own if not clocks or c in clocks] for key, own in shared.items()})
    for word, there, elsewhere in ((Word.NEW, head, base), (Word.MISSING, base, head)):
        for key in there["cases"].keys() - elsewhere["cases"].keys():
            findings.apart[key] = (word, elsewhere["skips"].get(key, f"not in the {_other(word)}"))
    for key in base["skips"].keys() & head["skips"].keys():
        findings.skips[key] = head["skips"][key]
    return findings


def _other(word: Word) -> str:
    return "base" if word is Word.NEW else "head"


def _visit(pair: Pair, findings: Findings, keys: Sequence[str], course: Course) -> list[str]:
    """Measure `keys` in their order; give back those that a side's death left over, after the one that it died of."""
    pace = course.plan.pace(max(1, len(keys)))
    for index, key in enumerate(keys):
        if course.left_s <= 0:
            break
        try:
            if _ready(pair, key, findings, course.dice):
                names = findings.clocks(key)
                findings.add(key, measure(*pair, key, names, pace, course.clock, course.dice))
        except SideDiedError as died:
            findings.set_apart(key, _word(died), f"the {died.side}'s process ended over it: {died}")
            return list(keys[index + 1 :])
    return []


def _word(died: SideDiedError) -> Word:
    """A compiler that takes longer than there is time is nobody's fault."""
    if not died.in_time:
        return Word.INCONCLUSIVE
    return Word.WRONG if died.side == "head" else Word.INCOMPARABLE


def _ready(pair: Pair, key: str, findings: Findings, dice: Random) -> bool:
    said = build(pair, key, dice, checked=any(test.restarts for test in findings.tests[key]))
    words = tuple(one["word"] for one in said)
    if words == ("ready", "ready"):
        return True
    if words == ("unsupported", "unsupported"):
        findings.skip(key, said[1]["why"])
    elif words[1] != "ready":
        findings.set_apart(key, Word.WRONG if words[1] == "wrong" else Word.MISSING, f"in the head: {said[1]['why']}")
    else:
        word = Word.INCOMPARABLE if words[0] == "wrong" else Word.NEW
        findings.set_apart(key, word, f"in the base: {said[0]['why']}")
    return False


def build(pair: Pair, key: str, dice: Random, checked: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """What base and head say to `build`, asked one after the other, so that neither disturbs what the other tunes;
    whoever is first. `checked` is whether both were at parity in a restart before."""
    said = {side: pair[side].ask("build", key=key, checked=checked) for side in dice.sample((0, 1), 2)}
    return said[0], said[1]


def _progress(restart: int, undecided: int, course: Course) -> str:
    left = max(0.0, course.left_s) / 60
    return f"restart {restart} of at most {course.plan.restarts}: {undecided} undecided, {left:.1f} min left"
