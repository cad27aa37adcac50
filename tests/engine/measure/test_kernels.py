"""Kernel time from hand-made intervals, and from fake events of a profile."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from perf.measure.kernels import Activity, Bursts, KernelMeter, activities, apart, busy_s, cuda_trace


def spans(*ends: tuple[float, float]) -> list[Activity]:
    return [Activity("kernel", start, end) for start, end in ends]


@pytest.mark.parametrize(
    ("intervals", "busy"),
    [
        ([], 0.0),
        ([(1.0, 3.0)], 2.0),
        ([(0.0, 1.0), (2.0, 4.0)], 3.0),  # a gap
        ([(0.0, 1.0), (1.0, 2.0)], 2.0),  # they touch
        ([(0.0, 3.0), (2.0, 5.0)], 5.0),  # they overlap
        ([(0.0, 10.0), (2.0, 3.0), (4.0, 5.0)], 10.0),  # one within another
        ([(0.0, 10.0), (2.0, 3.0), (9.0, 11.0)], 11.0),  # and one that outlasts the outer
        ([(6.0, 7.0), (0.0, 2.0), (1.0, 3.0)], 4.0),  # not in order
        ([(1.0, 2.0), (1.0, 2.0)], 1.0),  # two streams side by side
    ],
)
def test_union(intervals: list[tuple[float, float]], busy: float) -> None:
    assert busy_s(spans(*intervals)) == busy


@dataclass
class Raw:
    """As torch's own events are: everything is a call, times are nanoseconds since 1970."""

    kernel: str
    from_ns: int
    for_ns: int
    device: DeviceType = DeviceType.CUDA
    drawn: bool = False

    def name(self) -> str:
        return self.kernel

    def start_ns(self) -> int:
        return 1_764_300_000_000_000_000 + self.from_ns

    def duration_ns(self) -> int:
        return self.for_ns

    def device_type(self) -> DeviceType:
        return self.device

    def is_user_annotation(self) -> bool:
        return self.drawn


def test_only_what_the_device_did_is_taken_from_a_profile() -> None:
    """Of two kernels that follow each other by 1 ns; what is left of such a moment in a float64 is 256 ns."""
    found = activities(
        [
            Raw("gemm", 10_000, 20_000),
            Raw("Torch-Compiled Region: 0/0", 0, 90_000, drawn=True),
            Raw("cudaLaunchKernel", 0, 5_000, DeviceType.CPU),
            Raw("Memcpy DtoH (Device -> Pageable)", 30_001, 10_000),
        ]
    )
    assert [item.name for item in found] == ["gemm", "Memcpy DtoH (Device -> Pageable)"]
    assert [item.is_kernel for item in found] == [True, False]
    assert [item.start_s for item in found] == pytest.approx([0.0, 20_001e-9], abs=1e-12)
    assert busy_s(found) == pytest.approx(30_000e-9, abs=1e-12)


def test_torchs_events_are_such_as_are_read_here() -> None:
    """Of the CPU: there is no other device everywhere."""
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        torch.ones(3).sum()
    assert recorded.profiler is not None
    results = recorded.profiler.kineto_results
    assert results is not None
    ones = [event for event in results.events() if event.name() == "aten::ones"]
    assert [event.device_type().name for event in ones] == ["CPU"]
    (parsed,) = (event for event in recorded.events() or () if event.name == "aten::ones")
    assert ones[0].duration_ns() == pytest.approx(parsed.time_range.elapsed_us() * 1e3, abs=1)
    assert activities(results.events()) == []


class Traced:
    """A trace in which each call of a burst takes as long on the device as `seconds` says of the burst."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = iter(seconds)
        self.calls: list[int] = []

    def __call__(self, bursts: Bursts) -> list[tuple[int, list[Activity]]]:
        self.calls = list(bursts())
        return [(calls, spans((0.0, calls * next(self.seconds)))) for calls in self.calls]


class Clock:
    """Stands still but for what is told to take time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds: float) -> Callable[[], None]:
        def work() -> None:
            self.now += seconds

        return work


def test_a_call_is_a_tenth_of_ten() -> None:
    made: list[int] = []

    def trace(bursts: Bursts) -> list[tuple[int, list[Activity]]]:
        (calls,) = bursts()
        one = [Activity("gemm", 0.0, 0.25), Activity("relu", 0.125, 0.375), Activity("Memset (Device)", 0.5, 0.625)]
        return [(calls, one * calls)]

    found = KernelMeter(trace, calls=10, bursts=1, max_s=math.inf).measure(lambda: made.append(1))
    assert len(made) == 10
    assert found == {"device_s": pytest.approx(0.05), "kernels": 2}


def test_the_median_burst_counts() -> None:
    meter = KernelMeter(Traced(1.0, 4.0, 2.0), calls=2, bursts=3, max_s=math.inf)
    assert meter.measure(lambda: None) == {"device_s": 2.0, "kernels": 0}


def test_no_further_burst_once_the_time_is_over() -> None:
    """One call is one second, and one burst: two fit into two seconds, of 1 and 4 seconds on the device."""
    clock, trace = Clock(), Traced(1.0, 4.0, 2.0)
    meter = KernelMeter(trace, 1, 3, max_s=2.0, clock=clock)
    assert meter.measure(clock.takes(1.0))["device_s"] == 2.5
    assert trace.calls == [1, 1]


@pytest.mark.parametrize(
    ("launching", "waiting", "calls"),
    [(0.05, 0.0, [10] * 5), (0.05, 0.06, [5] * 5), (0.1, 0.5, [1] * 5), (4.0, 2.0, [1])],  # a burst's share is 0.6 s
)
def test_a_burst_has_as_many_calls_as_fit(launching: float, waiting: float, calls: list[int]) -> None:
    clock, trace = Clock(), Traced(*[1.0] * 5)
    KernelMeter(trace, clock=clock, wait=clock.takes(waiting)).measure(clock.takes(launching))
    assert trace.calls == calls


def test_nothing_recorded_is_absent() -> None:
    assert KernelMeter(lambda bursts: [], wait=lambda: None).measure(lambda: None) == {}


SPIN = "at::cuda::(anonymous namespace)::spin_kernel(long)"


def test_bursts_are_what_lies_between_the_marks() -> None:
    """Out of order; a lead of two, of which nothing before its last kernel counts."""
    recorded = [
        Activity("relu", 5.0, 6.0),
        Activity(SPIN, 2.0, 2.5),
        Activity("gemm", 3.0, 4.0),
        Activity(SPIN, 4.0, 4.5),
        Activity("stray", 1.5, 1.75),
        Activity(SPIN, 1.0, 1.25),
        Activity("gemm", 4.5, 5.0),
        Activity(SPIN, 6.0, 6.5),
    ]
    assert apart(recorded, 2) == [
        [Activity("gemm", 3.0, 4.0)],
        [Activity("gemm", 4.5, 5.0), Activity("relu", 5.0, 6.0)],
    ]


def test_a_record_whose_head_was_lost_is_not_believed() -> None:
    tail = [Activity("gemm", 3.0, 4.0), Activity(SPIN, 4.0, 4.5)]
    assert apart(tail, 1) is None
    assert apart([], 1) is None
    assert apart([Activity(SPIN, 1.0, 1.5), *tail], 1) == [[Activity("gemm", 3.0, 4.0)]]


def test_half_a_measurement_is_none() -> None:
    """Two bursts, and the mark between them was lost: both seem to be the second, after a first of nothing."""
    lead = [Activity(SPIN, 0.0, 0.5), Activity(SPIN, 1.0, 1.5)]
    assert apart([*lead, Activity("gemm", 3.0, 4.0), Activity("gemm", 5.0, 6.0), Activity(SPIN, 6.0, 6.5)], 2) is None


@pytest.mark.parametrize(("lost", "believed"), [(0, True), (511, True), (512, True), (5000, False)])
def test_a_longer_lead_is_tried_when_the_first_is_lost(
    monkeypatch: pytest.MonkeyPatch, lost: int, believed: bool
) -> None:
    def record(bursts: Bursts, lead: int) -> tuple[list[int], list[Activity]]:
        queued = [Activity(SPIN, float(at), at + 0.5) for at in range(lead)]
        queued += [Activity("gemm", 9000.0, 9001.0), Activity(SPIN, 9001.0, 9002.0)]
        return list(bursts()), queued[lost:]

    monkeypatch.setattr("perf.measure.kernels._record", record)
    assert cuda_trace(lambda: iter([7])) == ([(7, [Activity("gemm", 9000.0, 9001.0)])] if believed else [])
