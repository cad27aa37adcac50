"""Recorded restarts of a comparison of a revision with itself: one a line of `<machine class>.ab.jsonl.gz`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perf.ab.interleave import Restart
from perf.contract import Case
from perf.study.journal import append_line, check_schema, read_entries

SCHEMA = 1
SUFFIX = ".ab.jsonl.gz"
DIGITS = 6


@dataclass(frozen=True)
class Point:
    """One case at one level in one restart. `wanted` is the head's extra work, as a share of the case's own time (0 is
    none), `achieved` the share that it took by clock, `seconds` what measuring took, and `found` by clock what a
    comparison would have kept of it."""

    case: str
    wanted: float
    achieved: Mapping[str, float]
    seconds: float
    found: Mapping[str, Restart]


@dataclass(frozen=True)
class Recorded:
    """One pair of fresh processes of the same code. `at` is when they were started (ISO 8601, UTC), `seed` that of the
    inputs; `start_s` is until both had collected their cases, `built_s` by case until both had built it. `left_out` are
    cases that neither side timed, and why."""

    at: str
    seed: int
    machine_class: str
    hardware: Mapping[str, str]
    software: Mapping[str, str]
    start_s: float
    built_s: Mapping[str, float]
    points: tuple[Point, ...]
    left_out: Mapping[str, str]

    def at_level(self, wanted: float) -> dict[str, Point]:
        """By case."""
        return {point.case: point for point in self.points if point.wanted == wanted}


def to_line(restart: Recorded) -> str:
    kept = replace(restart, points=tuple(map(_rounded, restart.points)))
    return json.dumps({"schema": SCHEMA, **asdict(kept)}, separators=(",", ":"))


def _rounded(point: Point) -> Point:
    """Logs to a millionth, seconds to six digits."""
    found = {
        clock: Restart(_digits(one.base_s), _digits(one.head_s), round(one.ratio, DIGITS), one.pairs)
        for clock, one in point.found.items()
    }
    return replace(point, found=found, achieved={clock: _digits(share) for clock, share in point.achieved.items()})


def _digits(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def from_line(text: str) -> Recorded:
    """Raises ValueError, KeyError, TypeError or AttributeError where `text` is not one recorded restart."""
    found: dict[str, Any] = json.loads(text)
    check_schema(found["schema"], SCHEMA)
    return Recorded(
        at=str(found["at"]),
        seed=int(found["seed"]),
        machine_class=str(found["machine_class"]),
        hardware=dict(found["hardware"]),
        software=dict(found["software"]),
        start_s=_finite(found["start_s"]),
        built_s={key: _finite(seconds) for key, seconds in found["built_s"].items()},
        points=tuple(map(_point, found["points"])),
        left_out=dict(found["left_out"]),
    )


def _point(found: Mapping[str, Any]) -> Point:
    Case.parse(found["case"])
    return Point(
        case=found["case"],
        wanted=_finite(found["wanted"]),
        achieved={clock: _finite(share) for clock, share in found["achieved"].items()},
        seconds=_finite(found["seconds"]),
        found={clock: _restart(one) for clock, one in found["found"].items()},
    )


def _restart(found: Mapping[str, Any]) -> Restart:
    base, head, ratio = (_finite(found[name]) for name in ("base_s", "head_s", "ratio"))
    if min(base, head) <= 0:
        raise ValueError(f"{min(base, head)!r} where positive seconds are wanted")
    return Restart(base, head, ratio, int(found["pairs"]))


def _finite(value: Any) -> float:
    if not (isinstance(value, int | float) and math.isfinite(value)):
        raise ValueError(f"{value!r} where a finite number is wanted")
    return float(value)


def read(path: Path) -> list[Recorded]:
    """All restarts of one file, oldest first.

    Raises:
        CoregateError: the file is unreadable, cut short, damaged, of another schema, or of two machine classes.
    """
    return read_entries(path, from_line)


def append(path: Path, restart: Recorded) -> None:
    """Add one restart. A process that is killed meanwhile leaves the file as it was.

    Raises:
        CoregateError: the file cannot be read or written.
    """
    append_line(path, to_line(restart))
