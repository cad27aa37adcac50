"""One restart of one case: blocks of calls in both processes, in ABBA order, until the ratio of the two is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Any, Protocol

Durations = Mapping[str, Sequence[float]]
"""One block: seconds of each call, by clock (`latency_s`, …)."""


class SideDiedError(Exception):
    """A side's process ended, or was ended because it did not answer `in_time`. `side` is `base` or `head`."""

    def __init__(self, side: str, why: str, in_time: bool = True) -> None:
        super().__init__(why)
        self.side = side
        self.in_time = in_time


class Side(Protocol):
    """A side's process: `ask` as `perf.ab.side` says; `run` calls the case that stands built. While one side runs, the
    other waits for its next request. Both raise SideDiedError."""

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]: ...

    def run(self, key: str, calls: int) -> Durations: ...


@dataclass(frozen=True)
class Pace:
    """A block lasts about `block_s`; blocks go on until the standard error of every clock's log ratio, believed from
    `least` quads on, is within `precision`, or for `most_s` seconds."""

    precision: float
    most_s: float
    block_s: float = 0.02
    least: int = 6


@dataclass(frozen=True)
class Restart:
    """One clock of one case in one restart: median seconds of each side, log of the ratio head / base, and the number
    of pairs of blocks."""

    base_s: float
    head_s: float
    ratio: float
    pairs: int


def measure(
    base: Side, head: Side, key: str, clocks: Sequence[str], pace: Pace, clock: Callable[[], float], dice: Random
) -> dict[str, Restart]:
    """By clock. A quad is ABBA or BAAB at random: what drifts steadily is in both sides alike, and what follows the
    order is in no side more often. The ratio is the median of the quads'."""
    sides = (base, head)
    pilot = [median(side.run(key, 3)[clocks[0]]) for side in sides]
    calls = max(1, min(1000, round(pace.block_s / max(*pilot, 1e-9))))
    quads: list[tuple[list[Durations], list[Durations]]] = []
    start = clock()
    while not quads or (clock() - start < pace.most_s and not _known(quads, clocks, pace)):
        quad: tuple[list[Durations], list[Durations]] = ([], [])
        first = dice.randrange(2)
        for turn in (first, 1 - first, 1 - first, first):
            quad[turn].append(sides[turn].run(key, calls))
        quads.append(quad)
    return {name: _summary(quads, name) for name in clocks}


def _known(quads: Sequence[tuple[list[Durations], list[Durations]]], clocks: Sequence[str], pace: Pace) -> bool:
    if len(quads) < pace.least:
        return False
    return all(standard_error(_ratios(quads, name)) <= pace.precision for name in clocks)


def standard_error(ratios: Sequence[float]) -> float:
    """Of the median of `ratios`, for normal data: sqrt(π/2) · σ/√n, with σ = 1.4826 × the median absolute deviation."""
    centre = median(ratios)
    scale = 1.4826 * median(abs(ratio - centre) for ratio in ratios)
    return math.sqrt(math.pi / 2 / len(ratios)) * scale


def _ratios(quads: Sequence[tuple[list[Durations], list[Durations]]], name: str) -> list[float]:
    """One a quad: the mean over its two pairs of the log ratio of the blocks' medians."""
    return [
        sum(math.log(median(block[name])) for block in head) / 2
        - sum(math.log(median(block[name])) for block in base) / 2
        for base, head in quads
    ]


def _summary(quads: Sequence[tuple[list[Durations], list[Durations]]], name: str) -> Restart:
    levels = [median(median(block[name]) for quad in quads for block in quad[turn]) for turn in (0, 1)]
    return Restart(levels[0], levels[1], median(_ratios(quads, name)), 2 * len(quads))
