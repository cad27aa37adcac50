"""Where a run's time went: seconds by what they were spent on, so that what measuring itself costs can be told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter


class Ledger:
    """`seconds` by name. A span within a span is charged to the inner one alone, so that the sum is never more than the
    time that passed since the ledger was opened, `wall_s`.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._clock = clock
        self._open: list[str] = []
        self._begun = self._since = clock()

    @property
    def wall_s(self) -> float:
        return self._clock() - self._begun

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Charge the block to `name`, whether or not it raises."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    @property
    def harness_s(self) -> float:
        """What is left of `wall_s` beside all that was charged: the harness's own."""
        return max(0.0, self.wall_s - sum(self.seconds.values()))

    @property
    def harness_share(self) -> float:
        """The same as a share of `wall_s`, in 0–1."""
        return self.harness_s / self.wall_s if self.wall_s > 0 else 0.0

    def _charge(self) -> None:
        now = self._clock()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now
