"""Before latency is sampled: warm-up, and a collector that keeps out of the way."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

Clock = Callable[[], float]
"""Monotonic seconds, such as `time.perf_counter`."""


@dataclass(frozen=True)
class WarmUpPlan:
    """Windows of `window` calls until two neighbours' medians agree within `agreement` and there were at least
    `calls`, for `max_s` seconds at the most."""

    window: int = 3
    agreement: float = 0.05
    max_s: float = 2.0
    calls: int = 0


@dataclass(frozen=True)
class WarmUp:
    """`first_call_s` is the first of these calls; `stable` is whether the windows came to agree within the time."""

    first_call_s: float
    calls: int
    stable: bool


def warm_up(call: Callable[[], object], clock: Clock, plan: WarmUpPlan = WarmUpPlan()) -> WarmUp:
    """Call until neighbouring windows agree. At least two windows are run, whatever the time."""
    start = clock()
    samples = [_timed(call, clock) for _ in range(2 * plan.window)]
    while (len(samples) < plan.calls or not _agree(samples, plan)) and clock() - start < plan.max_s:
        samples += [_timed(call, clock) for _ in range(plan.window)]
    return WarmUp(samples[0], len(samples), _agree(samples, plan))


def _timed(call: Callable[[], object], clock: Clock) -> float:
    start = clock()
    call()
    return clock() - start


def _agree(samples: list[float], plan: WarmUpPlan) -> bool:
    last, before = median(samples[-plan.window :]), median(samples[-2 * plan.window : -plan.window])
    return abs(last - before) <= plan.agreement * min(last, before)


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Collect now, then keep the garbage collector out of the samples; on the way out it is as it was."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
