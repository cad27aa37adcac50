"""Recorded runs made by hand: what is in them is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perf.study.records import Figures, Point, Recorded


def key(number: int) -> str:
    return f"toy{number:02}/tiny/eager-fp32/b5/cpu"


def flat(value: float, samples: Sequence[float] = ()) -> Figures:
    """All three numbers of a metric the same."""
    return Figures(value, value, value, tuple(samples))


def recorded(
    number: int, values: dict[float, Sequence[float]], metric: str = "latency_s", samples: Sequence[float] = ()
) -> Recorded:
    """Run `number`; `values` are the cases' medians by level."""
    points = [
        Point(key(i), level, {metric: level} if level else {}, {metric: flat(value, samples)})
        for level, found in values.items()
        for i, value in enumerate(found)
    ]
    at = f"2026-01-01T{number // 60:02}:{number % 60:02}:00+00:00"
    return Recorded(at, 7, "toy-2c", {"cpu": "toy", "cores": "2"}, {"torch": "2.14.1"}, tuple(points), {})


def population(
    runs: int,
    sigma: Sequence[float],
    levels: Sequence[float] = (0.0,),
    injected: int = 0,
    seed: int = 1,
    metric: str = "latency_s",
) -> list[Recorded]:
    """Runs of `len(sigma)` cases of 1 ms whose logs are normal with those deviations; the first `injected` runs hold
    each of `levels` too, every value with a draw of its own and slower by exactly that much."""
    dice = np.random.default_rng(seed)

    def draw(level: float) -> list[float]:
        return [math.exp(value) * 1e-3 * (1 + level) for value in dice.normal(0, sigma)]

    return [
        recorded(number, {level: draw(level) for level in (levels if number < injected else (0.0,))}, metric)
        for number in range(runs)
    ]
