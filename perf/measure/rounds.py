"""Our samples in pytest-benchmark's fixture: its options rule them, and its table, its JSON and its hooks show them.

The fixture has no public way to take samples in. What is used of it here is the same in 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable
from cProfile import Profile
from dataclasses import dataclass
from typing import Any

from pytest_benchmark.fixture import PauseInstrumentation

from perf.measure.latency import WarmUp, WarmUpPlan, quiet_collector, warm_up
from perf.measure.repeats import at_once
from perf.measure.sampling import Samples, SamplingPlan, sample


@dataclass(frozen=True)
class Rounds:
    """How one case was warmed up and sampled."""

    warm: WarmUp
    samples: Samples

    def notes(self) -> dict[str, str]:
        """What a row says of it."""
        stable = "stable" if self.warm.stable else "unstable"
        return {"warm_up": f"{self.warm.calls} calls, {stable}", "sampling": self.samples.words}


def take_rounds(
    benchmark: Any,
    call: Callable[[], object],
    within: float,
    before: Callable[[], None] = at_once,
    slowed: Callable[[], bool] = lambda: False,
) -> Rounds | None:
    """Warm `call` up, sample it and leave the samples in `benchmark`, the fixture. None with `--benchmark-disable`:
    then it is called once. See `perf.measure.sampling.sample` for the rest.

    `--benchmark-min-rounds`, `-max-time`, `-timer` and, where given, `-precision` (in place of `within`) rule the
    samples; `-warmup` adds calls, for the windows that must agree are always run; the garbage collector is always off
    (`-disable-gc`). A round is one call whatever `-min-time` says.
    """
    benchmark._mode = "benchmark(...)"  # the fixture warns of one that nobody used
    if benchmark.disabled:
        call()
        return None
    try:
        found = _sampled(benchmark, call, within, before, slowed)
    except Exception:
        benchmark.has_error = True
        raise
    stats = benchmark._make_stats(1)
    for seconds in found.samples.seconds:
        stats.update(seconds)
    if benchmark.cprofile:
        _profile(benchmark, call)
    return found


def sampling_plan(benchmark: Any, within: float) -> SamplingPlan:
    """The fixture's options, which a test's `@pytest.mark.benchmark(...)` may have changed."""
    precision = getattr(benchmark, "_precision", None)  # since 5.3
    return SamplingPlan(benchmark._min_rounds, benchmark._max_time, precision or within)


def _sampled(
    benchmark: Any,
    call: Callable[[], object],
    within: float,
    before: Callable[[], None],
    slowed: Callable[[], bool],
) -> Rounds:
    with PauseInstrumentation(), quiet_collector():
        warm = warm_up(call, benchmark._timer, WarmUpPlan(calls=int(benchmark._warmup)))
        return Rounds(warm, sample(call, benchmark._timer, sampling_plan(benchmark, within), before, slowed))


def _profile(benchmark: Any, call: Callable[[], object]) -> None:
    """`--benchmark-cprofile`, over as many calls as `-loops` says."""
    profile = Profile()
    with PauseInstrumentation():
        for _ in range(benchmark.cprofile_loops or 1):
            profile.runcall(call)
    benchmark._save_cprofile(profile)
