"""What many answers are made of: one variant beside another over all cases that have both, and ratios in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perf.claims.reading import MissingError, Reading
from perf.contract import Case
from perf.report.cases import eager_beside as eager_beside
from perf.report.cases import seconds as seconds
from perf.report.cases import size as size

CLOSE = 1.05
"""A latency within 5 % is called the same: that is latency's own budget."""
TIME = ("device_s", "latency_s")
"""What a variant takes: kernel time where there is a GPU, which repeats closely, else what a caller waits."""


@dataclass(frozen=True)
class Pair:
    """One metric of a case, of two variants of it."""

    case: Case
    first: float
    second: float

    @property
    def ratio(self) -> float:
        """How many times the second the first is."""
        return self.first / self.second


def pairs(
    reading: Reading, first: str, second: str, metric: str = "latency_s", cores: Sequence[str] = ("*",)
) -> list[Pair]:
    """`first` and `second` are variants by name; of all cases of these cores (patterns) that have the metric of both,
    in the same runs where there are any.

    Raises:
        MissingError: there are none.
    """
    keys = dict.fromkeys(key for core in cores for key in _keys(reading, f"{core}/*/{first}/*/*") if "#" not in key)
    having = [key for key in keys if reading.has(key, metric) and reading.has(beside(key, second), metric)]
    if not having:
        raise MissingError(f"{first} beside {second}")
    return [Pair(Case.parse(key), *together(reading, (key, beside(key, second)), metric)) for key in having]


def together(reading: Reading, keys: Sequence[str], metric: str = "latency_s") -> list[float]:
    """The metric of each, of the same runs where any has all."""
    runs = reading.of_one_run(dict.fromkeys(keys, (metric,)))
    return [runs.value(key, metric) for key in keys]


def beside(key: str, variant: str) -> str:
    """The key of the same case in another variant; what stands behind a `#` stays."""
    return key.replace(Case.parse(key).key, replace(Case.parse(key), variant=variant).key)


def time(reading: Reading, key: str) -> float:
    """Seconds, by the first clock of `TIME` that the row has."""
    return reading.value(key, next((name for name in TIME if reading.has(key, name)), TIME[-1]))


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of ratios, the mean that does not depend on which of the two is above the line."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def span(ratios: Sequence[float]) -> str:
    """`1.20×`, or `0.91× to 1.52×`."""
    low, high = f"{min(ratios):.2f}×", f"{max(ratios):.2f}×"
    return low if low == high else f"{low} to {high}"


def shares(values: Sequence[float]) -> str:
    """`90%`, or `82% to 89%`."""
    low, high = f"{min(values):.0%}", f"{max(values):.0%}"
    return low if low == high else f"{low} to {high}"


def _keys(reading: Reading, pattern: str) -> list[str]:
    try:
        return reading.keys(pattern)
    except MissingError:
        return []
