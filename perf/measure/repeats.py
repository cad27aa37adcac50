"""A quantity read before and after each of a few calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

Reading = Callable[[], float]


def at_once() -> None:
    """Nothing to wait for."""


@dataclass(frozen=True)
class Repeats:
    """At most `calls` calls, and no further one once `max_s` seconds are over; always one."""

    calls: int = 10
    max_s: float = 0.2
    clock: Reading = perf_counter

    def median_of(self, take: Callable[[], float]) -> float:
        """The median of what `take` returns, each time from one call."""
        begun, taken = self.clock(), [take()]
        while len(taken) < self.calls and self.clock() - begun < self.max_s:
            taken.append(take())
        return median(taken)

    def median_growth(
        self, reading: Reading, call: Callable[[], object], between: Callable[[], None] = at_once
    ) -> float:
        """The median over the calls of how much `reading` grew during one; `between` runs before each, unread."""

        def growth() -> float:
            between()
            before = reading()
            call()
            return reading() - before

        return self.median_of(growth)
