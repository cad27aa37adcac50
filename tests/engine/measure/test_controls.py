"""The controls, small: each does the work it says, and its time is its clock's."""

from __future__ import annotations

import pytest
import torch

from perf.measure.controls import CONTROLS, SIZES, ControlSizes, ControlWatch, measure_controls

SMALL = ControlSizes(matmul=8, dtype=torch.float32, copy_bytes=64, chain=5, max_s=0.01)


class Ticks:
    """Each reading is a quarter of a second after the last: a call takes exactly that."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


def test_medians_in_seconds_by_name() -> None:
    assert measure_controls("cpu", SMALL, Ticks()) == {"matmul": 0.25, "copy": 0.25, "launches": 0.25}


def test_the_real_clock_gives_positive_times() -> None:
    found = measure_controls("cpu", SMALL)
    assert found.keys() == CONTROLS.keys()
    assert all(seconds > 0 for seconds in found.values())


def test_each_does_its_work() -> None:
    product = CONTROLS["matmul"]("cpu", SMALL)()
    copied = CONTROLS["copy"]("cpu", SMALL)()
    assert isinstance(product, torch.Tensor)
    assert product.shape == (8, 8)
    assert isinstance(copied, torch.Tensor)
    assert copied.tolist() == [1] * 64


def test_launches_are_a_chain_of_small_operations() -> None:
    work = CONTROLS["launches"]("cpu", SMALL)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        work()
    assert [event.count for event in recorded.key_averages() if event.key == "aten::add_"] == [5]


def test_the_seed_of_others_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    CONTROLS["matmul"]("cpu", SMALL)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_full_sizes_are_beyond_the_caches(device: str) -> None:
    assert SIZES[device].copy_bytes >= 64 << 20


def scripted(values: list[float]) -> ControlWatch:
    readings = iter(values)
    return ControlWatch(wanted=True, measure=lambda device: {"matmul": next(readings)})


def test_a_run_has_the_mean_on_logs_of_its_first_and_its_last() -> None:
    watch = scripted([1.0, 4.0])
    watch.start("cpu")
    watch.start("cpu")
    assert watch.finish() == {"matmul": 2.0}
    assert watch.finish() == {"matmul": 2.0}  # and measures no third time


def test_what_was_not_wanted_or_timed_nothing_has_no_controls() -> None:
    off = ControlWatch(measure=lambda device: {"matmul": 1.0})
    off.start("cpu")
    assert (off.finish(), scripted([]).finish()) == ({}, {})
