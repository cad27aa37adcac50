"""Control cases: work that no compiler and no ONNX Runtime touches. When they move, the machine moved and not the code.

One of each kind of limit: arithmetic, memory, and the host that launches small kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

import torch

from perf.measure.device import release, synchronise
from perf.measure.latency import Clock, WarmUpPlan, quiet_collector, warm_up
from perf.measure.sampling import WITHIN, SamplingPlan, sample

Work = Callable[[], object]


@dataclass(frozen=True)
class ControlSizes:
    """`matmul` is the side of the square matrices, of dtype `dtype`; `copy_bytes` are read once and written once;
    `chain` is the number of small operations in a row; `max_s` bounds the sampling of each control.
    """

    matmul: int
    dtype: torch.dtype
    copy_bytes: int
    chain: int = 40
    max_s: float = 0.3


SIZES = {
    "cpu": ControlSizes(matmul=1024, dtype=torch.float32, copy_bytes=64 << 20),
    "cuda": ControlSizes(matmul=8192, dtype=torch.bfloat16, copy_bytes=512 << 20),
}
WARM = WarmUpPlan(window=1, max_s=0.1)


def measure_controls(
    device: str, sizes: ControlSizes | None = None, clock: Clock = perf_counter
) -> Mapping[str, float]:
    """Medians in seconds of one call each, with the wait for the device: `matmul`, `copy`, `launches`. About a second
    in all; what they allocate is freed.
    """
    chosen = sizes or SIZES[device]
    plan = SamplingPlan(max_s=chosen.max_s, within=WITHIN[device])
    with torch.inference_mode(), quiet_collector():
        found = {name: _measure(make(device, chosen), device, plan, clock) for name, make in CONTROLS.items()}
    release(device)
    return found


@dataclass
class ControlWatch:
    """The controls of one run, before its first case and after its last; off until it is `wanted`. `ceilings` are what
    `survey` finds beside the first, empty until then.
    """

    wanted: bool = False
    measure: Callable[[str], Mapping[str, float]] = measure_controls
    survey: Callable[[str], Mapping[str, float]] = lambda device: {}
    device: str = ""
    ceilings: Mapping[str, float] = field(default_factory=dict)
    _seen: list[Mapping[str, float]] = field(default_factory=list)

    def start(self, device: str) -> None:
        """Before a case on `device`; all but the first call do nothing."""
        if self.wanted and not self._seen:
            self.device = device
            self._seen.append(self.measure(device))
            self.ceilings = self.survey(device)

    def finish(self) -> dict[str, float]:
        """Seconds by name, the mean of both on logs; empty where no case was timed. Measured once."""
        if len(self._seen) == 1:
            self._seen.append(self.measure(self.device))
        return {name: math.sqrt(first * self._seen[1][name]) for name, first in (self._seen or [{}])[0].items()}


def _measure(work: Work, device: str, plan: SamplingPlan, clock: Clock) -> float:
    def call() -> None:
        work()
        synchronise(device)

    warm_up(call, clock, WARM)
    return median(sample(call, clock, plan).seconds)


def _matmul(device: str, sizes: ControlSizes) -> Work:
    """Of random numbers: how much power a product draws, and so the clock it runs at, depends on them."""
    drawn = torch.Generator(device).manual_seed(0)
    shape = (2, sizes.matmul, sizes.matmul)
    left, right = torch.randn(shape, generator=drawn, dtype=sizes.dtype, device=device)
    product = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=product)


def _copy(device: str, sizes: ControlSizes) -> Work:
    source = torch.ones(sizes.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _launches(device: str, sizes: ControlSizes) -> Work:
    """Each operation needs the one before, and is far shorter than its launch."""
    values = torch.zeros(64, device=device)

    def work() -> None:
        for _ in range(sizes.chain):
            values.add_(1.0)

    return work


CONTROLS: Mapping[str, Callable[[str, ControlSizes], Work]] = {
    "matmul": _matmul,
    "copy": _copy,
    "launches": _launches,
}
