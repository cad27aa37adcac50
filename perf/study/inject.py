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
ATTEMPTS = 8
GROWTH = 8

CPU_BUFFER = 1 << 12
"""Elements of a pass on the CPU: 32 KiB in and 32 KiB out."""

CUDA_BUFFER = 1 << 26
"""Elements of a kernel on CUDA: 256 MiB, some 0.2 ms on an H100."""


@dataclass(frozen=True)
class Amount:
    """`elements` of extra work, and the `seconds` that they took when timed."""

    elements: int
    seconds: float


NOTHING = Amount(0, 0.0)


def calibrate(wanted_s: float, timed: Callable[[int], float], guess: int = CPU_BUFFER) -> Amount:
    """The amount of work whose time comes nearest to `wanted_s` (> 0). `timed(elements)` are the seconds of so much.

    The second amount is in proportion to the first, each later one on the straight line through the two nearest so far
    (secant), until it is within 3 %. One element is the least: where even that takes longer, it is what is given.
    """
    tried: list[Amount] = []
    elements = max(1, guess)
    while len(tried) < ATTEMPTS and elements not in {amount.elements for amount in tried}:
        tried.append(Amount(elements, timed(elements)))
        tried.sort(key=lambda amount: abs(amount.seconds - wanted_s))
        if abs(tried[0].seconds / wanted_s - 1) <= TOLERANCE:
            break
        elements = _next(wanted_s, *tried[:2])
    return tried[0]


def _next(wanted_s: float, nearest: Amount, other: Amount = NOTHING) -> int:
    """At most eightfold the larger of both, so that a clock that once reads too little does no harm."""
    rise = nearest.seconds - other.seconds
    step = (wanted_s - nearest.seconds) / rise * (nearest.elements - other.elements) if rise else 0.0
    return min(max(1, round(nearest.elements + step)), GROWTH * max(nearest.elements, other.elements))


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
