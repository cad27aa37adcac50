"""The meters of a case: each one way of measuring, apart from the samples of latency."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from perf.measure.cpu_time import CpuTimeMeter
from perf.measure.device import synchronise
from perf.measure.instructions import InstructionMeter
from perf.measure.kernels import KernelMeter
from perf.measure.memory import AllocatorMeter, CardMemoryMeter, ResidentMeter
from perf.measure.nvml import Card

COUNTS = frozenset({"kernels"})
"""What the meters find that is a count and no quantity."""


class Meter(Protocol):
    """`measure` calls `call` as often as it needs, waits for the device itself, and returns quantities of one call
    under names that end in their unit (`device_s`, `peak_bytes`); counts have none (`kernels`). What cannot be
    measured here is absent, never 0.
    """

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]: ...


def meters(device: str, card: Card | None) -> tuple[Meter, ...]:
    """Those that make sense on `device`: kernel time on a GPU, the cores' own time on a CPU; `card` is the GPU's, if
    NVML can be asked.
    """
    wait = partial(synchronise, device)
    if device == "cpu":
        return CpuTimeMeter(), InstructionMeter(wait), ResidentMeter(wait=wait)
    of_the_card = (CardMemoryMeter(card, wait),) if card is not None else ()
    return KernelMeter(), InstructionMeter(wait), AllocatorMeter(wait), *of_the_card, ResidentMeter(wait=wait)


def measure_all(chosen: Iterable[Meter], call: Callable[[], object]) -> dict[str, float]:
    """What they found, together. A zero is left out: nothing was there to measure."""
    found = [meter.measure(call) for meter in chosen]
    return {name: value for values in found for name, value in values.items() if value}


def host_s(latency_s: float, measured: Mapping[str, float]) -> dict[str, float]:
    """What is left of the latency beside the device's busy time, where that is known and there is any."""
    left = latency_s - measured.get("device_s", latency_s)
    return {"host_s": left} if left > 0 else {}
