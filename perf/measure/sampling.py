"""Sampling that stops when it knows: until the median is known closely enough, or the time is up, and it says which.

How closely one run knows its own median says nothing of how far the next run's will lie: that is the noise model's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.special import bdtr

from perf.disturbance import SLOWED
from perf.measure.latency import Clock
from perf.measure.repeats import at_once

CONFIDENCE = 0.95
WITHIN = {"cuda": 0.005, "cpu": 0.01}
"""By device, how far from the median either end of its interval may lie, as a share of it."""


@dataclass(frozen=True)
class SamplingPlan:
    """At least `min_rounds` samples; then until the median's interval is `within` its share, or `max_s` are over.
    Whether the device is slowed down is asked every `look_s`, and so is whether enough is known.
    """

    min_rounds: int = 5
    max_s: float = 1.0
    within: float = WITHIN["cpu"]
    look_s: float = 0.1


@dataclass(frozen=True)
class Samples:
    """`seconds` in the order they were taken. `width` is how far the 95 % interval reaches from the median, as a
    share of it (infinite below six samples). `dropped` were taken while the device was slowed down; `slowed` is
    whether they had to be kept because there were too few others.
    """

    seconds: tuple[float, ...]
    width: float
    precise: bool
    dropped: int = 0
    slowed: bool = False

    @property
    def words(self) -> str:
        """`precise ±0.4% of 87 samples, 2 dropped`."""
        reach = f" ±{self.width:.1%}" if math.isfinite(self.width) else ""
        told = f"{'precise' if self.precise else 'time'}{reach} of {len(self.seconds)} samples"
        told += f", {self.dropped} dropped" if self.dropped else ""
        return f"{told}, {SLOWED}" if self.slowed else told


def interval_width(seconds: Sequence[float]) -> float:
    """How far the distribution-free 95 % interval of the median reaches from it, as a share of it; infinite where there
    are too few samples for one.

    The interval lies between two order statistics, chosen by the binomial distribution: Conover, *Practical
    Nonparametric Statistics*, 3rd ed. 1999, section 3.2. It takes the samples as independent.
    `scipy.stats.quantile_test` gives the same interval; importing it takes half a second of every run.
    """
    middle = median(seconds) if seconds else 0.0
    if middle <= 0:
        return math.inf
    ordered, below = sorted(seconds), _ranks_below(len(seconds))
    if not below:
        return math.inf
    return max(middle - ordered[below - 1], ordered[-below] - middle) / middle


def _ranks_below(n: int) -> int:
    """The rank, from either end of `n` ordered samples, that the median is outside of with at most half of the 5 %; 0
    where even the outermost sample is not far enough: P(Binomial(n, ½) < rank).
    """
    tail = (1 - CONFIDENCE) / 2
    return int((bdtr(np.arange(n // 2 + 1), n, 0.5) <= tail).sum())


def sample(
    call: Callable[[], object],
    clock: Clock,
    plan: SamplingPlan = SamplingPlan(),
    before: Callable[[], None] = at_once,
    slowed: Callable[[], bool] = lambda: False,
) -> Samples:
    """Time calls of `call`, `before` each of which runs untimed. `slowed` says whether the device runs slower than it
    should just now: samples between two looks of which either says so are dropped.
    """
    begun, was_slow = clock(), slowed()
    clean: list[float] = []
    suspect: list[float] = []
    while True:
        left_s, missing = plan.max_s - (clock() - begun), plan.min_rounds - len(clean) - len(suspect)
        at_most = sys.maxsize if left_s > 0 else max(1, missing)
        stretch = _stretch(call, clock, before, min(plan.look_s, left_s) if left_s > 0 else plan.look_s, at_most)
        is_slow = slowed()
        (suspect if was_slow or is_slow else clean).extend(stretch)
        was_slow, width = is_slow, interval_width(clean)
        if len(clean) >= plan.min_rounds and width <= plan.within:
            return Samples(tuple(clean), width, True, len(suspect))
        if clock() - begun >= plan.max_s and len(clean) + len(suspect) >= plan.min_rounds:
            return _out_of_time(clean, suspect, plan)


def _out_of_time(clean: list[float], suspect: list[float], plan: SamplingPlan) -> Samples:
    if len(clean) >= plan.min_rounds:
        return Samples(tuple(clean), interval_width(clean), False, len(suspect))
    kept = clean + suspect
    return Samples(tuple(kept), interval_width(kept), False, slowed=True)


def _stretch(
    call: Callable[[], object], clock: Clock, before: Callable[[], None], length_s: float, at_most: int
) -> list[float]:
    """Samples for `length_s` seconds, but no more than `at_most`; always one."""
    begun, taken = clock(), [_timed(call, clock, before)]
    while len(taken) < at_most and clock() - begun < length_s:
        taken.append(_timed(call, clock, before))
    return taken


def _timed(call: Callable[[], object], clock: Clock, before: Callable[[], None]) -> float:
    before()
    start = clock()
    call()
    return clock() - start
