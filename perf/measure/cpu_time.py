"""CPU time of a call: what the cores worked for it, all threads together. Waiting for a core is not in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import process_time

from perf.measure.repeats import Reading, Repeats


@dataclass(frozen=True)
class CpuTimeMeter:
    """`cpu_s`: user and system time of the process, the median over a few calls."""

    reading: Reading = process_time
    repeats: Repeats = field(default_factory=Repeats)

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        return {"cpu_s": self.repeats.median_growth(self.reading, call)}
