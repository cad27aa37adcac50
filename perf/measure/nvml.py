"""The state of the card, from NVML: clock, temperature, what slows it down, who else is on it.

Without the `gpu` extra, without a driver, or where a query is refused, what is not known is absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

from perf.disturbance import FOREIGN

T = TypeVar("T")

SLOWDOWNS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
"""`nvmlClocksEventReasons`, NVIDIA's NVML API reference. The others (idle, clocks set by the user) slow nobody down."""
POWER_CAP = SLOWDOWNS[0x04]


@dataclass(frozen=True)
class CardState:
    """At one moment. `slowdowns` are words of `SLOWDOWNS`; `foreign` counts compute processes that are not this one;
    `own_bytes` is what this one holds on the card.
    """

    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    slowdowns: frozenset[str] = frozenset()
    foreign: int = 0
    own_bytes: int | None = None

    @property
    def throttled(self) -> bool:
        """Slower than the card's own rules make it under this load. The power cap is such a rule: a large matrix
        product runs into it for as long as it lasts, and so does its baseline.
        """
        return bool(self.slowdowns - {POWER_CAP})


class Card(Protocol):
    """One GPU as a meter sees it; reading its state takes a millisecond or so."""

    def state(self) -> CardState: ...


def slowdowns(bits: int) -> frozenset[str]:
    return frozenset(word for bit, word in SLOWDOWNS.items() if bits & bit)


def own_bytes(held: Mapping[int, int | None], pid: int) -> int | None:
    """Of the bytes that each process holds on the card. In a container NVML may name processes by the host's numbers;
    then a process that is alone is this one, and among several this one is not known.
    """
    return held[pid] if pid in held else next(iter(held.values())) if len(held) == 1 else None


@dataclass(frozen=True)
class NvmlCard:
    """`nvml` is the module `pynvml`, initialised; `handle` its device."""

    nvml: Any
    handle: Any
    pid: int

    def state(self) -> CardState:
        nvml, handle = self.nvml, self.handle
        bits = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        held = {found.pid: found.usedGpuMemory for found in self._ask(self._processes) or ()}
        return CardState(
            sm_clock_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            temperature_c=self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            slowdowns=slowdowns(bits or 0),
            foreign=max(0, len(held) - 1),  # this process is one of them, by whatever number
            own_bytes=own_bytes(held, self.pid),
        )

    def _processes(self) -> Iterable[Any]:
        found: Iterable[Any] = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        return found

    def _ask(self, query: Callable[[], T]) -> T | None:
        try:
            return query()
        except self.nvml.NVMLError:
            return None


@cache
def open_card(device: str) -> Card | None:
    """The current CUDA device's card, found by its UUID (NVML does not know `CUDA_VISIBLE_DEVICES`). None on a CPU, and
    where NVML cannot be reached.
    """
    if device != "cuda":
        return None
    try:
        import pynvml
    except ImportError:
        return None
    import torch

    try:
        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        return NvmlCard(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid), os.getpid())
    except pynvml.NVMLError:
        return None


@cache
def driver_version() -> str:
    """As NVML has it, for containers that do not show `/proc/driver/nvidia`; empty where NVML cannot be reached."""
    try:
        import pynvml
    except ImportError:
        return ""
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return ""


class CardWatch:
    """Looks at a card from time to time and keeps what it saw; without a card it sees nothing slow."""

    def __init__(self, card: Card | None) -> None:
        self.card = card
        self.states: list[CardState] = []

    def slowed(self) -> bool:
        """Look now."""
        if self.card is None:
            return False
        self.states.append(self.card.state())
        return self.states[-1].throttled


def notes(states: Iterable[CardState]) -> dict[str, str]:
    """What a row says of the card over one case: the clock's and temperature's range, and only where there were any,
    slowdowns and foreign processes.
    """
    seen = list(states)
    clocks = [state.sm_clock_mhz for state in seen if state.sm_clock_mhz is not None]
    degrees = [state.temperature_c for state in seen if state.temperature_c is not None]
    words = sorted(frozenset[str]().union(*(state.slowdowns for state in seen)))
    foreign = max((state.foreign for state in seen), default=0)
    found = {
        "sm_clock": _range(clocks, "MHz"),
        "temperature": _range(degrees, "°C"),
        "throttle": ", ".join(words),
        FOREIGN: str(foreign) if foreign else "",
    }
    return {name: text for name, text in found.items() if text}


def _range(values: list[int], unit: str) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low} {unit}" if low == high else f"{low}–{high} {unit}"
