"""Recorded runs: a fresh process is a line of JSON in `<machine class>.jsonl.gz`, each a gzip member of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perf.contract import Case
from perf.disturbance import LIMIT
from perf.study.journal import append_line, check_schema, read_entries

SCHEMA = 1
SUFFIX = ".jsonl.gz"
KEPT_SAMPLES = 50
DIGITS = 4


@dataclass(frozen=True)
class Figures:
    """One metric of one case at one level, in the metric's unit. `median`, `mean` and `min` are over all calls;
    `samples` are at most 50 of them, evenly spaced in time and rounded to 4 digits. Kernel time is summed over several
    calls and has a mean alone: there all three are that mean, and there are no samples. `waited` is the share of time
    in which others had the processor (`perf.measure.processor`), 0 where that is not known.
    """

    median: float
    mean: float
    min: float
    samples: tuple[float, ...] = ()
    waited: float = 0.0

    @property
    def disturbed(self) -> bool:
        return self.waited > LIMIT


Seen = Mapping[str, Figures]
"""One metric of one run at one level: case key → figures."""


@dataclass(frozen=True)
class Point:
    """One case at one level. `wanted` is the extra work asked for, as a share of the case's own time (0 is none), and
    `achieved` the share that it took, by metric, where that could be timed.
    """

    case: str
    wanted: float
    achieved: Mapping[str, float]
    metrics: Mapping[str, Figures]


@dataclass(frozen=True)
class Recorded:
    """One fresh process. `at` is when it began (ISO 8601, UTC), `seed` drew the order of levels; `left_out` are cases
    that gave no number, and why. `controls` are the seconds of the control cases (`perf.measure.controls`), empty where
    they were not timed."""

    at: str
    seed: int
    machine_class: str
    hardware: Mapping[str, str]
    software: Mapping[str, str]
    points: tuple[Point, ...]
    left_out: Mapping[str, str]
    controls: Mapping[str, float] = field(default_factory=dict)

    def seen(self, metric: str, wanted: float) -> Seen:
        return {
            point.case: point.metrics[metric]
            for point in self.points
            if point.wanted == wanted and metric in point.metrics
        }

    @property
    def disturbed(self) -> bool:
        """Whether any case was, without extra work: no baseline accepts such a run."""
        return any(figures.disturbed for point in self.points if not point.wanted for figures in point.metrics.values())

    @property
    def levels(self) -> frozenset[float]:
        return frozenset(point.wanted for point in self.points)


def summarise(samples: Sequence[float], waited: float = 0.0) -> Figures:
    """Figures of all calls' values, in the order in which they were taken; there is at least one."""
    ordered, count = sorted(samples), len(samples)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    step = max(1, math.ceil(count / KEPT_SAMPLES))
    mean = math.fsum(samples) / count
    kept = thinned(samples, step)
    return Figures(rounded(middle, 7), rounded(mean, 7), rounded(ordered[0], 7), kept, rounded(waited, 2))


def thinned(samples: Sequence[float], step: int) -> tuple[float, ...]:
    return tuple(rounded(value, DIGITS) for value in samples[::step])


def rounded(value: float, digits: int) -> float:
    """To so many significant digits."""
    return float(f"{value:.{digits}g}")


def to_line(run: Recorded) -> str:
    return json.dumps({"schema": SCHEMA, **asdict(run)}, separators=(",", ":"))


def from_line(text: str) -> Recorded:
    """Raises ValueError, KeyError, TypeError or AttributeError where `text` is not one recorded run."""
    found: dict[str, Any] = json.loads(text)
    check_schema(found["schema"], SCHEMA)
    return Recorded(
        at=str(found["at"]),
        seed=int(found["seed"]),
        machine_class=str(found["machine_class"]),
        hardware=dict(found["hardware"]),
        software=dict(found["software"]),
        points=tuple(map(_point, found["points"])),
        left_out=dict(found["left_out"]),
        controls={name: _positive(seconds) for name, seconds in found.get("controls", {}).items()},
    )


def _point(found: Mapping[str, Any]) -> Point:
    Case.parse(found["case"])
    metrics = {name: _figures(figures) for name, figures in found["metrics"].items()}
    return Point(found["case"], float(found["wanted"]), dict(found["achieved"]), metrics)


def _figures(found: Mapping[str, Any]) -> Figures:
    waited = float(found.get("waited", 0))
    figures = Figures(found["median"], found["mean"], found["min"], tuple(found["samples"]), waited)
    for value in (figures.median, figures.mean, figures.min, *figures.samples):
        _positive(value)
    return figures


def _positive(value: Any) -> float:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ValueError(f"{value!r} where a positive number is wanted")
    return float(value)


def read(path: Path) -> list[Recorded]:
    """All runs of one file, oldest first.

    Raises:
        CoregateError: the file is unreadable, cut short, damaged, of another schema, or of two machine classes.
    """
    return read_entries(path, from_line)


def append(path: Path, run: Recorded) -> None:
    """Add one run. A process that is killed meanwhile leaves the file as it was.

    Raises:
        CoregateError: the file cannot be read or written.
    """
    append_line(path, to_line(run))
