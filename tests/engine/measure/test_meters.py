"""The meters together: what they find is one mapping, a zero is nothing, and what is left of latency is the host's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest

from perf.measure.kernels import KernelMeter
from perf.measure.memory import CardMemoryMeter
from perf.measure.meters import host_s, measure_all, meters
from perf.measure.nvml import CardState


class Says:
    def __init__(self, **found: float) -> None:
        self._found = found

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        call()
        return self._found


def test_what_they_find_is_one_mapping_without_zeros() -> None:
    called: list[int] = []
    found = measure_all([Says(device_s=0.5, kernels=3), Says(peak_bytes=0.0), Says()], lambda: called.append(1))
    assert found == {"device_s": 0.5, "kernels": 3}
    assert len(called) == 3


def test_the_host_has_what_the_device_was_not_busy_for() -> None:
    assert host_s(0.75, {"device_s": 0.5}) == {"host_s": 0.25}
    assert host_s(0.75, {"cpu_s": 0.5}) == {}
    assert host_s(0.5, {"device_s": 0.5}) == {}
    assert host_s(0.5, {"device_s": 0.625}) == {}  # it is busy for longer where calls follow each other


def test_a_gpu_is_asked_for_kernels_and_its_card_where_there_is_one() -> None:
    card = SimpleNamespace(state=CardState)
    kinds = {type(meter) for meter in meters("cuda", card)}
    assert {KernelMeter, CardMemoryMeter} <= kinds
    assert kinds - {type(meter) for meter in meters("cuda", None)} == {CardMemoryMeter}
    assert not {KernelMeter, CardMemoryMeter} & {type(meter) for meter in meters("cpu", None)}


def test_a_real_cpu_call_has_cpu_time_and_never_device_time() -> None:
    found = measure_all(meters("cpu", None), lambda: sum(range(50_000)))
    assert found["cpu_s"] > 0
    assert found.keys() <= {"cpu_s", "host_instructions", "rss_peak_bytes"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_quantity_is_found_by_one_meter_alone(device: str) -> None:
    kinds = [type(meter) for meter in meters(device, SimpleNamespace(state=CardState))]
    assert len(kinds) == len(set(kinds))
