"""Sampling on a fake clock: when it stops, what it keeps, and what pytest-benchmark is given."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat
from statistics import median
from typing import Any

import numpy as np
import pytest

from perf.measure.nvml import CardState, CardWatch
from perf.measure.rounds import sampling_plan, take_rounds
from perf.measure.sampling import Samples, SamplingPlan, interval_width, sample


class Machine:
    """A clock that only calls move, by the next of the scripted durations; `flush_s` is what emptying the cache
    takes.
    """

    def __init__(self, durations: Iterator[float], flush_s: float = 0.0) -> None:
        self.now, self.calls, self.flushes = 0.0, 0, 0
        self._durations, self._flush_s = durations, flush_s

    def clock(self) -> float:
        return self.now

    def call(self) -> None:
        assert self.flushes in (0, self.calls + 1)  # where there are flushes, one goes before each call
        self.now += next(self._durations)
        self.calls += 1

    def flush(self) -> None:
        self.now += self._flush_s
        self.flushes += 1


@pytest.mark.parametrize(
    ("count", "width"),
    [
        (5, math.inf),  # 2/2^5 = 6.3 % lie outside the whole range: no interval of 95 %
        (6, 2.5 / 3.5),  # 2/2^6 = 3.1 %: the whole range, 1 to 6 about 3.5
        (10, 3.5 / 5.5),  # the 2nd to the 9th: (1 + 10) · 2/2^10 = 2.1 % outside; the 3rd would leave 10.9 %
        (20, 4.5 / 10.5),  # the 6th to the 15th: 4.1 % outside
    ],
)
def test_the_interval_of_the_median_lies_between_order_statistics(count: int, width: float) -> None:
    assert interval_width([float(n) for n in range(count, 0, -1)]) == pytest.approx(width)


def test_no_samples_and_no_time_have_no_interval() -> None:
    assert interval_width([]) == math.inf
    assert interval_width([0.0] * 20) == math.inf


def test_steady_calls_stop_at_the_first_look_that_has_an_interval() -> None:
    machine = Machine(repeat(0.03125))
    found = sample(machine.call, machine.clock, SamplingPlan(max_s=10.0, look_s=0.125))
    assert found == Samples((0.03125,) * 8, width=0.0, precise=True)  # four calls a look, and four have no interval
    assert found.words == "precise ±0.0% of 8 samples"


def test_restless_calls_run_out_of_time() -> None:
    machine = Machine(cycle([0.25, 0.5]))
    found = sample(machine.call, machine.clock, SamplingPlan(max_s=6.0))
    assert (len(found.seconds), found.precise) == (16, False)  # eight pairs of 0.75 s
    assert found.width == pytest.approx(0.125 / 0.375)
    assert found.words == "time ±33.3% of 16 samples"


def test_long_calls_are_still_sampled_as_often_as_asked() -> None:
    machine = Machine(repeat(8.0))
    found = sample(machine.call, machine.clock, SamplingPlan(min_rounds=3, max_s=1.0))
    assert found == Samples((8.0, 8.0, 8.0), math.inf, precise=False)
    assert found.words == "time of 3 samples"


def test_stopping_when_it_is_narrow_keeps_the_interval_honest() -> None:
    """Looking again and again until the interval is narrow could pick the lucky ones; the true median is 1/64 s."""
    drawn = random.Random(1)
    machines = [Machine(iter(lambda: drawn.lognormvariate(0.0, 0.03) / 64, None)) for _ in range(200)]
    found = [sample(machine.call, machine.clock, SamplingPlan(max_s=8.0)) for machine in machines]
    held = [abs(median(one.seconds) * 64 - 1.0) <= one.width * median(one.seconds) * 64 for one in found]
    assert all(one.precise for one in found)
    assert sum(held) / len(held) > 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(held))


def test_rounds_that_outlast_the_time_are_looked_at_no_more_often() -> None:
    machine, looks = Machine(cycle([0.25, 0.5])), []
    plan = SamplingPlan(min_rounds=1000, max_s=1.0, look_s=75.0)
    found = sample(machine.call, machine.clock, plan, slowed=lambda: bool(looks.append(machine.now)))
    assert len(found.seconds) == 1000  # 375 s
    assert len(looks) == 1 + 1 + 5  # before, at the end of the time, and every 75 s of what is left


def test_more_rounds_than_precision_needs_can_be_asked_for() -> None:
    machine = Machine(repeat(0.5))
    assert len(sample(machine.call, machine.clock, SamplingPlan(min_rounds=30, max_s=1.0)).seconds) == 30


def test_the_cache_is_emptied_before_each_call_outside_its_time() -> None:
    machine = Machine(repeat(0.5), flush_s=3.0)
    found = sample(machine.call, machine.clock, SamplingPlan(max_s=100.0), before=machine.flush)
    assert set(found.seconds) == {0.5}
    assert machine.flushes == machine.calls == 6


class FakeCard:
    """Hot between two times of the machine's clock, when its calls take twice as long."""

    def __init__(self, machine: Machine, hot_from: float, hot_until: float) -> None:
        self._machine, self._hot = machine, (hot_from, hot_until)

    def state(self) -> CardState:
        hot = self._hot[0] <= self._machine.now < self._hot[1]
        return CardState(slowdowns=frozenset({"software thermal"} if hot else ()))


def test_samples_under_throttling_are_dropped_and_counted() -> None:
    machine = Machine(chain(repeat(0.5, 3), repeat(1.0, 4), repeat(0.5)))
    watch = CardWatch(FakeCard(machine, 1.75, 4.75))  # hot when looked at after call 4 and until after call 6
    found = sample(machine.call, machine.clock, SamplingPlan(max_s=60.0), slowed=watch.slowed)
    assert found.seconds == (0.5,) * 6
    assert (found.dropped, found.slowed) == (4, False)
    assert found.words == "precise ±0.0% of 6 samples, 4 dropped"
    assert len(watch.states) == machine.calls + 1


def test_a_card_that_never_cools_is_sampled_and_said_so() -> None:
    machine = Machine(repeat(1.0))
    watch = CardWatch(FakeCard(machine, 0.0, math.inf))
    found = sample(machine.call, machine.clock, SamplingPlan(max_s=7.0), slowed=watch.slowed)
    assert (found.seconds, found.dropped, found.precise) == ((1.0,) * 7, 0, False)
    assert found.words == "time ±0.0% of 7 samples, the device was slowed down"


def test_without_a_card_nothing_is_slow() -> None:
    watch = CardWatch(None)
    assert watch.slowed() is False
    assert watch.states == []


class Fixture:
    """The part of pytest-benchmark's fixture that is used; the real one is below."""

    disabled, has_error, cprofile = False, False, False
    _min_rounds, _max_time, _warmup = 7, 0.5, False

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer


def test_an_error_in_a_call_marks_the_benchmark_as_failed() -> None:
    def fail() -> None:
        raise ValueError("out of memory")

    benchmark: Any = Fixture(lambda: 0.0)
    with pytest.raises(ValueError, match="out of memory"):
        take_rounds(benchmark, fail, within=0.01)
    assert benchmark.has_error


def test_the_options_rule_the_plan() -> None:
    benchmark: Any = Fixture(lambda: 0.0)
    assert sampling_plan(benchmark, 0.005) == SamplingPlan(min_rounds=7, max_s=0.5, within=0.005)
    benchmark._precision = 0.02
    assert sampling_plan(benchmark, 0.005).within == 0.02


BENCHMARK = """
    from perf.measure.rounds import take_rounds

    class Machine:
        now, calls = 0.0, 0
        def __call__(self):
            return self.now
        def call(self):
            self.now += (0.25, 0.5)[self.calls % 2]
            self.calls += 1

    def test_one(benchmark):
        machine = benchmark._timer = Machine()
        benchmark.group = "ours"
        found = take_rounds(benchmark, machine.call, within=0.01)
        print("calls", machine.calls, found and found.notes())
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makepyfile(BENCHMARK)
    return pytester.runpytest_inprocess("-s", "-p", "no:cacheprovider", *options)


@pytest.mark.usefixtures("loaded_torch")
def test_the_samples_are_in_pytest_benchmarks_own_table_and_json(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--benchmark-min-rounds=16", "--benchmark-max-time=1", "--benchmark-json=run.json")
    said = "*'sampling': 'time ±33.3% of 16 samples'*"
    result.stdout.fnmatch_lines([said, "*benchmark 'ours': 1 tests*", "test_one *"])
    (found,) = json.loads((pytester.path / "run.json").read_text())["benchmarks"]
    assert {name: found["stats"][name] for name in ("min", "max", "median", "rounds", "iterations")} == {
        "min": 0.25,
        "max": 0.5,
        "median": 0.375,
        "rounds": 16,
        "iterations": 1,
    }


@pytest.mark.usefixtures("loaded_torch")
def test_a_disabled_benchmark_is_called_once(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--benchmark-disable")
    result.stdout.fnmatch_lines(["*calls 1 None*"])
    result.assert_outcomes(passed=1)


@pytest.mark.usefixtures("loaded_torch")
def test_asking_for_a_warm_up_adds_calls(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--benchmark-warmup=on", "--benchmark-warmup-iterations=4", "--benchmark-max-time=1")
    result.stdout.fnmatch_lines(["*'warm_up': '6 calls, *"])


@pytest.mark.parametrize("count", [1, 5, 6, 7, 30, 97, 500])
def test_the_interval_is_scipys(count: int) -> None:
    """SciPy's quantile test is written apart from ours, and too slow to import in every run."""
    from scipy.stats import quantile_test

    drawn = np.random.default_rng(count).lognormal(size=count)
    middle = float(np.median(drawn))
    theirs = quantile_test(drawn, q=middle, p=0.5).confidence_interval(0.95)
    width = max(middle - theirs.low, theirs.high - middle) / middle
    assert interval_width(list(drawn)) == pytest.approx(width if math.isfinite(width) else math.inf)
