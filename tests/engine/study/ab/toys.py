"""Recorded restarts made by hand: what is in them is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from perf.ab.interleave import Restart
from perf.study.ab.records import Point, Recorded
from tests.engine.study.toys import key

START_S, BUILT_S, MEASURING_S = 10.0, 1.0, 2.0


def restart(number: int, ratios: Mapping[float, Sequence[float]], clocks: Sequence[str] = ("latency_s",)) -> Recorded:
    """Restart `number`; `ratios` are the cases' log ratios by level, the same on every clock."""
    points = [
        Point(
            case=key(i),
            wanted=level,
            achieved=dict.fromkeys(clocks, level) if level else {},
            seconds=MEASURING_S,
            found={clock: Restart(1e-3, 1e-3 * math.exp(ratio), ratio, 12) for clock in clocks},
        )
        for level, found in ratios.items()
        for i, ratio in enumerate(found)
    ]
    cases = {point.case: BUILT_S for point in points}
    at = f"2026-01-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00+00:00"
    hardware, software = {"cpu": "toy", "cores": "2"}, {"torch": "2.14.1"}
    return Recorded(at, 7, "toy-2c", hardware, software, START_S, cases, tuple(points), {})


def population(
    restarts: int, sigma: float, levels: Sequence[float] = (0.0,), cases: int = 1, seed: int = 1
) -> list[Recorded]:
    """Log ratios that are normal around each level with deviation `sigma`, independent of one another."""
    dice = np.random.default_rng(seed)
    return [
        restart(number, {level: dice.normal(math.log1p(level), sigma, cases).tolist() for level in levels})
        for number in range(restarts)
    ]
