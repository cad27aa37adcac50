"""Comparisons replayed on recorded restarts, by the very rule of `python -m perf ab`: its looks, levels, limits, words.

`in_order` gives each comparison the restarts that came one after the other, and none to two comparisons: what users
would have seen. `drawn` gives each restarts drawn from all, with replacement, so that the recorded ones stand for all
that could have come. Where the sides are alike, they are swapped by chance in each restart drawn: otherwise the mean of
the recorded ones, which is not quite 0, would be a change that the draws find. Comparisons that share restarts are not
independent: `Replayed.independent` says how many the recorded restarts make.

Time is what the recording took to start, build and measure the cases that were still open, so that the limit in minutes
holds as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from perf.ab.compare import Plan, decided
from perf.ab.findings import Findings
from perf.ab.interleave import Restart
from perf.outcome import Word
from perf.study.ab.records import Point, Recorded

FEWEST = 20
"""Recorded restarts to draw from. Of fewer, the four of a first look are the same one too often, and have no spread: of
4 restarts in 1.6 % of draws, of 20 in 0.01 %."""

SEED = 20
"""Of the draws, so that the report is the same each time."""

Words = Mapping[tuple[str, str], Word]
"""By case and clock."""


class UsedUpError(Exception):
    """There are no restarts left, and the comparison is not decided."""


@dataclass(frozen=True)
class Timed:
    """What a comparison takes of one recorded restart: its start, and by case building it and measuring it at one
    level."""

    start_s: float
    built_s: Mapping[str, float]
    points: Mapping[str, Point]

    def swapped(self) -> Timed:
        """As if base and head had come the other way round."""
        points = {
            key: replace(point, found={clock: _swapped(one) for clock, one in point.found.items()})
            for key, point in self.points.items()
        }
        return replace(self, points=points)


def _swapped(one: Restart) -> Restart:
    return Restart(one.head_s, one.base_s, -one.ratio, one.pairs)


def at_level(restarts: Sequence[Recorded], keys: Sequence[str], level: float) -> list[Timed]:
    """Of the restarts that hold all of `keys` at the level."""
    found = [(restart, restart.at_level(level)) for restart in restarts]
    return [
        Timed(restart.start_s, restart.built_s, {key: points[key] for key in keys})
        for restart, points in found
        if all(key in points for key in keys)
    ]


@dataclass(frozen=True)
class Comparison:
    """`seconds` is until the last word, or until the limit."""

    words: Words
    restarts: int
    seconds: float


class Replay:
    """One comparison, on restarts as they come."""

    def __init__(self, restarts: Iterator[Timed], clocks: Mapping[str, Sequence[str]], plan: Plan) -> None:
        self._restarts = restarts
        self._plan = plan
        self._findings = Findings.of(clocks)
        self._spent_s = 0.0

    def run(self) -> Comparison:
        """Raises UsedUpError."""
        count = sum(1 for _ in decided(self._findings, self._plan, self._restart, lambda: self._left_s))
        words = {(test.key, test.clock): test.word for test in self._findings.all}
        return Comparison(words, count, self._spent_s)

    @property
    def _left_s(self) -> float:
        return self._plan.budget_s - self._spent_s

    def _restart(self, _: int) -> None:
        """As `perf.ab.compare`: no further case is begun once time is up."""
        restart = next(self._restarts, None)
        if restart is None:
            raise UsedUpError
        self._spent_s += restart.start_s
        for key in self._findings.open:
            if self._left_s <= 0:
                break
            self._spent_s += restart.built_s[key] + restart.points[key].seconds
            self._findings.add(key, restart.points[key].found)


@dataclass(frozen=True)
class Replayed:
    """Comparisons of the same cases at one level, one or more, from `recorded` restarts, of which each took some."""

    comparisons: Sequence[Comparison]
    recorded: int

    @property
    def independent(self) -> float:
        """How many comparisons the recorded restarts make."""
        return self.recorded / fmean(found.restarts for found in self.comparisons)


def clocks_of(restarts: Sequence[Timed]) -> dict[str, list[str]]:
    """By case, those of every restart."""
    return {
        key: [clock for clock in point.found if all(clock in other.points[key].found for other in restarts)]
        for key, point in restarts[0].points.items()
    }


def in_order(restarts: Sequence[Timed], plan: Plan) -> Replayed | None:
    """Disjoint comparisons; what is left at the end makes none. None where there is not even one."""
    left, found = iter(restarts), list[Comparison]()
    try:
        while True:
            found.append(Replay(left, clocks_of(restarts), plan).run())
    except UsedUpError:
        return Replayed(found, len(restarts)) if found else None


def drawn(restarts: Sequence[Timed], plan: Plan, draws: int, alike: bool, seed: int = SEED) -> Replayed | None:
    """`alike` is whether both sides do the same. None where there are fewer than 20 restarts to draw from."""
    if len(restarts) < FEWEST:
        return None
    dice, clocks = np.random.default_rng(seed), clocks_of(restarts)
    both = [*restarts, *(restart.swapped() for restart in restarts)] if alike else restarts

    def endless() -> Iterator[Timed]:
        while True:
            yield both[int(dice.integers(len(both)))]

    return Replayed([Replay(endless(), clocks, plan).run() for _ in range(draws)], len(restarts))
