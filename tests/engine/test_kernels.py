"""Kernel time from hand-made intervals, and from fake events of a profile."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from torch.autograd import DeviceType

from perf.measure.kernels import Activity, KernelMeter, activities, after_lead, busy_s, cuda_trace, total_s


def spans(*ends: tuple[float, float]) -> list[Activity]:
    return [Activity("kernel", start, end) for start, end in ends]


@pytest.mark.parametrize(
    ("intervals", "total", "busy"),
    [
        ([], 0.0, 0.0),
        ([(1.0, 3.0)], 2.0, 2.0),
        ([(0.0, 1.0), (2.0, 4.0)], 3.0, 3.0),  # a gap
        ([(0.0, 1.0), (1.0, 2.0)], 2.0, 2.0),  # they touch
        ([(0.0, 3.0), (2.0, 5.0)], 6.0, 5.0),  # they overlap
        ([(0.0, 10.0), (2.0, 3.0), (4.0, 5.0)], 12.0, 10.0),  # one within another
        ([(0.0, 10.0), (2.0, 3.0), (9.0, 11.0)], 13.0, 11.0),  # and one that outlasts the outer
        ([(6.0, 7.0), (0.0, 2.0), (1.0, 3.0)], 5.0, 4.0),  # not in order
        ([(1.0, 2.0), (1.0, 2.0)], 2.0, 1.0),  # two streams side by side
    ],
)
def test_sum_and_union(intervals: list[tuple[float, float]], total: float, busy: float) -> None:
    assert total_s(spans(*intervals)) == total
    assert busy_s(spans(*intervals)) == busy


def event(name: str, start_us: float, end_us: float, **more: object) -> SimpleNamespace:
    span = SimpleNamespace(start=start_us, end=end_us)
    return SimpleNamespace(**{"name": name, "time_range": span, "device_type": DeviceType.CUDA, **more})


def test_only_what_the_device_did_is_taken_from_a_profile() -> None:
    found = activities(
        [
            event("gemm", 10.0, 30.0, is_user_annotation=False),
            event("Torch-Compiled Region: 0/0", 0.0, 90.0, is_user_annotation=True),
            event("cudaLaunchKernel", 0.0, 5.0, device_type=DeviceType.CPU),
            event("Memcpy DtoH (Device -> Pageable)", 40.0, 41.5),  # torch without the attribute
        ]
    )
    assert [item.name for item in found] == ["gemm", "Memcpy DtoH (Device -> Pageable)"]
    assert [item.is_kernel for item in found] == [True, False]
    assert found[0].start_s == pytest.approx(10e-6)
    assert total_s(found) == pytest.approx(21.5e-6)


def test_a_call_is_a_tenth_of_ten() -> None:
    made: list[int] = []

    def trace(work: Callable[[], object]) -> list[Activity]:
        work()
        one = [Activity("gemm", 0.0, 0.25), Activity("relu", 0.125, 0.375), Activity("Memset (Device)", 0.5, 0.625)]
        return one * len(made)

    found = KernelMeter(trace, calls=10, bursts=1).measure(lambda: made.append(1))
    assert len(made) == 10
    assert found == {"device_s": 0.625, "device_busy_s": pytest.approx(0.05), "kernels": 2}


def test_the_median_burst_counts() -> None:
    """Bursts of two calls take 2, 8, 4 seconds of kernels: 1, 4, 2 a call."""
    lengths = iter([2.0, 8.0, 4.0])
    meter = KernelMeter(lambda work: spans((0.0, next(lengths))), calls=2, bursts=3)
    assert meter.measure(lambda: None) == {"device_s": 2.0, "device_busy_s": 2.0, "kernels": 0}


def test_no_further_burst_once_the_time_is_over() -> None:
    """The clock reads 0 at the start, then 1, 2, 3: with two seconds, bursts of 2 and 8 are taken."""
    lengths, ticks = iter([2.0, 8.0, 4.0]), iter([0.0, 1.0, 2.0, 3.0])
    meter = KernelMeter(lambda work: spans((0.0, next(lengths))), 1, 3, max_s=2.0, clock=lambda: next(ticks))
    assert meter.measure(lambda: None)["device_s"] == 5.0


def test_nothing_recorded_is_absent() -> None:
    assert KernelMeter(lambda work: []).measure(lambda: None) == {}
    taken = iter([spans((0.0, 1.0)), []])
    assert KernelMeter(lambda work: next(taken)).measure(lambda: None) == {}, "half a measurement is none"


SPIN = "at::cuda::(anonymous namespace)::spin_kernel(long)"


def test_what_was_recorded_before_the_lead_ended_is_not_counted() -> None:
    recorded = [
        Activity(SPIN, 2.0, 2.5),
        Activity("gemm", 3.0, 4.0),
        Activity("stray", 0.0, 1.0),
        Activity(SPIN, 1.0, 2.0),
    ]
    assert after_lead(recorded) == [Activity("gemm", 3.0, 4.0)]


def test_a_record_whose_head_was_lost_is_not_believed() -> None:
    assert after_lead([Activity("gemm", 3.0, 4.0)]) is None
    assert after_lead([]) is None


@pytest.mark.parametrize(("lost", "believed"), [(0, True), (511, True), (512, True), (5000, False)])
def test_a_longer_lead_is_tried_when_the_first_is_lost(
    monkeypatch: pytest.MonkeyPatch, lost: int, believed: bool
) -> None:
    def record(work: Callable[[], object], lead: int) -> list[Activity]:
        work()
        queued = [*(Activity(SPIN, float(at), at + 0.5) for at in range(lead)), Activity("gemm", 9000.0, 9001.0)]
        return queued[lost:]

    monkeypatch.setattr("perf.measure.kernels._record", record)
    assert cuda_trace(lambda: None) == ([Activity("gemm", 9000.0, 9001.0)] if believed else [])
