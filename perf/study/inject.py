"""Real extra work of a wanted duration: arithmetic on a buffer, its amount found by timing it.

An amount is a number of elements. They are worked through in passes over a buffer of bounded size, so that cost grows
in proportion and the case's own data is not thrown out of the cache by more than the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

LEVELS = (0.01, 0.02, 0.03, 0.05, 0.10, 0.20)
"""Extra work as a share of the case's own time."""

Work = Callable[[], None]
TOLERANCE = 0.03
ATTEMPTS = 10
GROWTH = 64.0
REACHED = 0.2

CPU_BUFFER = 1 << 12
"""Elements of a pass on the CPU: 32 KiB in and 32 KiB out."""

CUDA_BUFFER = 1 << 22
"""Elements of a kernel on CUDA: 16 MiB, a third of an H100's L2 cache; some 10 µs."""


@dataclass(frozen=True)
class Amount:
    """`elements` of extra work, and the `seconds` that they took when timed."""

    elements: int
    seconds: float


def calibrate(wanted_s: float, timed: Callable[[int], float], guess: int = CPU_BUFFER) -> Amount:
    """The amount of work whose time comes nearest to `wanted_s` (> 0). `timed(elements)` are the seconds of so much.

    From `guess` the amount grows in proportion until it is enough, or falls to one element, the least there is; between
    too little and enough the next one lies on the straight line through both (false position), until it is within 3 %.
    Only two amounts on either side of what is wanted make a line, so that a noisy clock cannot lead far away.
    """
    low: Amount | None = None
    high: Amount | None = None
    tried: list[Amount] = []
    elements = max(1, guess)
    while len(tried) < ATTEMPTS and elements not in {amount.elements for amount in tried}:
        latest = Amount(elements, timed(elements))
        tried.append(latest)
        if abs(latest.seconds / wanted_s - 1) <= TOLERANCE:
            break
        low, high = (latest, high) if latest.seconds < wanted_s else (low, latest)
        elements = _next(wanted_s, low, high)
    return min(tried, key=lambda amount: abs(amount.seconds - wanted_s))


def _next(wanted_s: float, low: Amount | None, high: Amount | None) -> int:
    if low is None:
        return 1
    if high is None:
        return round(low.elements * min(max(wanted_s / low.seconds, 2.0), GROWTH))
    share = (wanted_s - low.seconds) / (high.seconds - low.seconds)
    return low.elements + round(share * (high.elements - low.elements))


def reached(wanted_s: float, amount: Amount) -> bool:
    """Whether the amount is of the size that was wanted: within a fifth."""
    return abs(amount.seconds / wanted_s - 1) <= REACHED


def passes(elements: int, buffer: int) -> tuple[int, int]:
    """(number of passes, elements of each): as few as the buffer allows, all of one length."""
    count = max(1, math.ceil(elements / buffer))
    return count, max(1, round(elements / count))


def cpu_work(elements: int) -> Work:
    """log(1 + x) of `elements` float64 numbers on this one thread: numpy starts no others, so that the time waited and
    the processor time are the same."""
    import numpy as np

    count, length = passes(elements, CPU_BUFFER)
    source = np.linspace(0.5, 1.5, length)
    sink = np.empty_like(source)

    def work() -> None:
        for _ in range(count):
            np.log1p(source, out=sink)

    return work


def cuda_work(elements: int) -> Work:
    """Kernels x ← 0.5 x and x ← x + 0.5 in turn on `elements` float32 numbers, queued on the current stream. One kernel
    takes 1 to 2 µs whatever it does: no smaller share of a case can be injected than that."""
    import torch

    count, length = passes(elements, CUDA_BUFFER)
    buffer = torch.ones(length, device="cuda")

    def work() -> None:
        for turn in range(count):
            _ = buffer.add_(0.5) if turn % 2 else buffer.mul_(0.5)

    return work
