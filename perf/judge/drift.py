"""Drift: many steps, each too small for its budget, that add up.

A baseline that takes in every accepted run moves along with what it should catch. So a run is also laid beside the
oldest accepted run: twenty steps of 1 % are 22 % there, and 1 % beside the newest. Whether the steps are a trend or one
odd run tells Mann's test (Mann 1945): Kendall's τ of the values with their order. It assumes no distribution and is
exact to about 30 runs; one bad run in five neither makes a trend nor hides one of twenty steps. Five values in perfect
order, the new one among them, are the fewest that it calls a trend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perf.judge.noise import History, change, log_values

TREND_LEVEL = 0.02
"""Two-sided level of Mann's test; five values in perfect order reach 1/60."""


@dataclass(frozen=True)
class Drift:
    """The new run as the last of `logs`, behind the accepted ones, oldest first: natural logs of positive values. What
    takes scipy's statistics is computed when it is asked for: they take a second to import, and most runs have not come
    so far that a word is due.
    """

    logs: tuple[float, ...]

    @property
    def runs(self) -> int:
        """Accepted runs."""
        return len(self.logs) - 1

    @property
    def from_oldest(self) -> float:
        """Relative change of the new run from the oldest accepted one (0.2: 20 % slower)."""
        return change(self.logs[-1] - self.logs[0])

    @property
    def from_newest(self) -> float:
        return change(self.logs[-1] - self.logs[-2])

    @property
    def per_run(self) -> float:
        """The median relative step over all pairs of runs (Theil–Sen)."""
        from scipy import stats

        return change(float(stats.theilslopes(self.logs, np.arange(len(self.logs))).slope))

    @property
    def chance(self) -> float:
        """The probability, 0 to 1, of an order as strict as this one without a trend."""
        from scipy import stats

        found = float(stats.kendalltau(np.arange(len(self.logs)), self.logs).pvalue)
        return 1.0 if math.isnan(found) else found

    @property
    def is_trend(self) -> bool:
        return self.chance <= TREND_LEVEL


def drift(history: History, new: float) -> Drift:
    """How far `new` has come, in the unit of the accepted runs in `history` (oldest first; keep the first one ever).

    Raises:
        ValueError: the history is empty, or a value is not positive and finite.
    """
    return Drift((*log_values(history, "the history").tolist(), *log_values(new, "this run").tolist()))


def drift_line(found: Drift, budget: float) -> str:
    """One line where the new run is further than `budget` (0.05 is 5 %) from the oldest accepted run, on logs in either
    direction; else "".
    """
    if abs(found.logs[-1] - found.logs[0]) <= math.log1p(budget):
        return ""
    oldest, newest = f"{found.from_oldest:+.1%}", f"{found.from_newest:+.1%}"
    kind = f"a trend of {found.per_run:+.1%} a run" if found.is_trend else "no steady trend"
    return f"{oldest} since the oldest of {found.runs} accepted runs, {newest} since the newest; {kind}"
