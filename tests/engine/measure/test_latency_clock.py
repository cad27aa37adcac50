"""Warm-up on a fake clock: each call takes as long as the script says."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from perf.measure.latency import WarmUpPlan, quiet_collector, warm_up


class FakeClock:
    """Time passes only when `call` is called, by the next of the scripted durations (the last repeats)."""

    def __init__(self, durations: list[float]) -> None:
        self.now = 0.0
        self.calls = 0
        self._durations = durations

    def __call__(self) -> float:
        return self.now

    def call(self) -> None:
        self.now += self._durations[min(self.calls, len(self._durations) - 1)]
        self.calls += 1


def test_steady_calls_need_two_windows() -> None:
    clock = FakeClock([1.0])
    warm = warm_up(clock.call, clock, WarmUpPlan(window=3, agreement=0.05, max_s=100.0))
    assert (warm.calls, warm.stable, warm.first_call_s) == (6, True, 1.0)


def test_warms_until_neighbouring_windows_agree() -> None:
    clock = FakeClock([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 3.0, 3.0, 3.0])
    warm = warm_up(clock.call, clock, WarmUpPlan(window=3, agreement=0.05, max_s=1000.0))
    assert (warm.calls, warm.stable) == (12, True)  # medians 8, 5, 3, 3: the last two agree
    assert warm.first_call_s == 9.0


def test_says_so_when_time_is_up_before_they_agree() -> None:
    clock = FakeClock([float(2**i) for i in range(20)])
    warm = warm_up(clock.call, clock, WarmUpPlan(window=2, agreement=0.05, max_s=20.0))
    assert (warm.calls, warm.stable) == (6, False)  # 15 s after four calls, 63 s after six


def test_agreement_is_relative_to_the_faster_window() -> None:
    plan = WarmUpPlan(window=1, agreement=0.05, max_s=0.0)
    assert warm_up(*_pair([1.0, 1.049]), plan).stable
    assert not warm_up(*_pair([1.0, 1.051]), plan).stable


def test_at_least_the_calls_that_were_asked_for_but_no_longer_than_allowed() -> None:
    clock, late = FakeClock([1.0]), FakeClock([1.0])
    assert warm_up(clock.call, clock, WarmUpPlan(window=3, max_s=100.0, calls=10)).calls == 12  # whole windows
    assert warm_up(late.call, late, WarmUpPlan(window=3, max_s=7.0, calls=1000)).calls == 9


def _pair(durations: list[float]) -> tuple[object, FakeClock]:
    clock = FakeClock(durations)
    return clock.call, clock


@pytest.fixture
def collector_on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collector_on")
def test_collector_is_off_within_and_back_after() -> None:
    with quiet_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.usefixtures("collector_on")
def test_collector_stays_off_where_the_user_had_it_off() -> None:
    gc.disable()
    with quiet_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()
