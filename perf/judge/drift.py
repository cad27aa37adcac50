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

from perf.judge.noise import History, log_values

TREND_LEVEL = 0.02
"""Two-sided level of Mann's test; five values in perfect order reach 1/60."""


@dataclass(frozen=True)
class Drift:
    """`from_oldest` and `from_newest` are relative changes of the new run from those accepted runs (0.2: 20 % slower).
    `per_run` is the median relative step over all pairs of runs (Theil–Sen), `chance` the probability, 0 to 1, of an
    order as strict as this one without a trend. `runs` is the length of the history.
    """

    from_oldest: float
    from_newest: float
    per_run: float
    chance: float
    runs: int

    @property
    def is_trend(self) -> bool:
        return self.chance <= TREND_LEVEL


def drift(history: History, new: float) -> Drift:
    """How far `new` has come, in the unit of the accepted runs in `history` (oldest first; keep the first one ever).

    Raises:
        ValueError: the history is empty, or a value is not positive and finite.
    """
    from scipy import stats  # takes a second or more to import, and only a run beside a baseline needs it

    logs = np.append(log_values(history, "the history"), log_values(new, "this run"))
    order = np.arange(len(logs))
    chance = float(stats.kendalltau(order, logs).pvalue)
    return Drift(
        from_oldest=math.expm1(logs[-1] - logs[0]),
        from_newest=math.expm1(logs[-1] - logs[-2]),
        per_run=math.expm1(float(stats.theilslopes(logs, order).slope)),
        chance=1.0 if math.isnan(chance) else chance,
        runs=len(logs) - 1,
    )


def drift_line(found: Drift, budget: float) -> str:
    """One line where the new run is further than `budget` (0.05 is 5 %) from the oldest accepted run, on logs in either
    direction; else "".
    """
    if abs(math.log1p(found.from_oldest)) <= math.log1p(budget):
        return ""
    oldest, newest = f"{found.from_oldest:+.1%}", f"{found.from_newest:+.1%}"
    kind = f"a trend of {found.per_run:+.1%} a run" if found.is_trend else "no steady trend"
    return f"{oldest} since the oldest of {found.runs} accepted runs, {newest} since the newest; {kind}"
