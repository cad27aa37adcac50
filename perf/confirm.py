"""Suspects are measured again in fresh processes: noise lies between processes, and a second look from within the first
one would see the same number again. A process is pytest itself, with this run's own options, over the suspects
alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perf import children
from perf.errors import CoregateError
from perf.outcome import Row
from perf.store.baselines import read_run

MARKS = "latency or coldstart or loading or warmup"
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "perf.quiet", "--confirm=0", "-m", MARKS)
CACHE = "TORCHINDUCTOR_CACHE_DIR"

CARRIED = {
    "benchmark_min_rounds": "--benchmark-min-rounds",
    "benchmark_max_time": "--benchmark-max-time",
    "benchmark_warmup": "--benchmark-warmup",
    "benchmark_timer": "--benchmark-timer",
    "benchmark_precision": "--benchmark-precision",
}
"""pytest-benchmark's options that decide how a number comes about, where they are given."""


def carried(given: object) -> list[str]:
    """Those of `CARRIED` that `given`, pytest's options, has a value of."""
    values = {option: getattr(given, name, None) for name, option in CARRIED.items()}
    return [f"{option}={value}" for option, value in values.items() if value is not None]


@dataclass(frozen=True)
class Command:
    """How to start this run once more: pytest's arguments without what chose the cases, and the folder to start in."""

    arguments: tuple[str, ...]
    folder: Path
    tell: Callable[[str], object] = lambda line: None
    """Where to say that it takes a while."""

    def measure(self, keys: Sequence[str], *, compiled_anew: bool = False) -> Mapping[str, Row]:
        """Rows of `keys` from one fresh process; of those that gave a number there. `compiled_anew`: with a compile
        cache of its own, so that autotuning chooses once more.

        Raises:
            CoregateError: it wrote no run: what it said of that.
        """
        with tempfile.TemporaryDirectory(prefix="coregate-again-") as scratch:
            written = Path(scratch) / "run.json"
            chosen = [part for key in keys for part in ("--case", key)]
            command = [sys.executable, "-m", "pytest", *self.arguments, *QUIET, *chosen, f"--benchmark-json={written}"]
            variables = {CACHE: str(Path(scratch) / "compiled")} if compiled_anew else {}
            child = children.run(command, Path(scratch), self.folder, variables)
            if not written.exists():
                raise CoregateError(f"could not be measured again: {_what_it_said(child)}")
            return read_run(written).rows


def confirm(
    command: Command, keys: Sequence[str], times: int, *, compiled_anew: bool = False
) -> Iterator[Mapping[str, Row]]:
    """Rows of `times` fresh processes, one after the other.

    Raises:
        CoregateError: a process wrote no run.
    """
    how = ", compiled anew" if compiled_anew else ""
    for number in range(1, 1 + times if keys else 0):
        command.tell(f"measuring again in a fresh process{how}, {number} of {times}: {', '.join(keys)}")
        yield command.measure(keys, compiled_anew=compiled_anew)


def values(again: Sequence[Mapping[str, Row]]) -> dict[tuple[str, str], list[float]]:
    """(key, metric) → what each of those runs measured."""
    found: dict[tuple[str, str], list[float]] = {}
    for key, row in (item for rows in again for item in rows.items()):
        for metric, value in row.metrics.items():
            found.setdefault((key, metric), []).append(value)
    return found


def _what_it_said(child: subprocess.CompletedProcess[str]) -> str:
    """What killed it; else its last line that speaks of an error, or its last line."""
    if child.returncode < 0:
        return children.failure(child)
    lines = [line.strip() for line in (child.stdout + child.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [f"the process ended with {child.returncode}"])[-1]
