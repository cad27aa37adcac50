"""Recording: fresh processes one after the other, each appended to the file as soon as it is there."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic

from perf import children
from perf.errors import CoregateError
from perf.study.child import Spec
from perf.study.records import Recorded, append, from_line, read

GIVE_UP = 3
"""Processes that fail one after the other before the recording ends."""

Start = Callable[[Spec], Recorded]
Tell = Callable[[str], None]


class LostError(Exception):
    """A process that gave no run: what killed it, or the last line that it wrote."""


@dataclass(frozen=True)
class Plan:
    """`runs` more processes into `path`. Levels are injected until `injected_runs` of the file have them. `seed` gives
    each run its own."""

    path: Path
    runs: int
    injected_runs: int
    seed: Callable[[], int]


def record(plan: Plan, spec: Spec, start: Start, tell: Tell) -> int:
    """How many of the runs came. What is recorded stays, whatever ends the recording.

    Raises:
        CoregateError: the file is damaged or cannot be written, or three processes in a row gave nothing.
    """
    injected = sum(_holds_levels(run, spec) for run in read(plan.path)) if plan.path.exists() else 0

    def one() -> str:
        nonlocal injected
        levels = spec.levels if injected < plan.injected_runs else ()
        run = start(replace(spec, levels=levels, seed=plan.seed()))
        append(plan.path, run)
        injected += bool(levels)
        return f"{_said(run)}{', with extra work' if levels else ''}"

    return repeated(plan.runs, "run", one, tell)


def repeated(times: int, what: str, attempt: Callable[[], str], tell: Tell) -> int:
    """How many of so many attempts succeeded; each says what it gave.

    Raises:
        CoregateError: three in a row are lost.
    """
    kept, lost = 0, 0
    for number in range(1, times + 1):
        begun = monotonic()
        try:
            said = attempt()
        except LostError as error:
            lost += 1
            tell(f"{what} {number} of {times} is lost: {error}")
            if lost == GIVE_UP:
                raise CoregateError(f"{GIVE_UP} {what}s in a row gave nothing: {error}") from None
            continue
        kept, lost = kept + 1, 0
        tell(f"{what} {number} of {times}: {said}, {monotonic() - begun:.0f} s")
    return kept


def _holds_levels(run: Recorded, spec: Spec) -> bool:
    """Whether the run has extra work, and all cases that are recorded now. Not every level need be there: some cases
    are too short for the least work."""
    return len(run.levels) > 1 and set(spec.keys) <= {point.case for point in run.points} | set(run.left_out)


def _said(run: Recorded) -> str:
    cases = f"{len({point.case for point in run.points})} cases"
    return "; ".join([cases, *(f"without {key}: {why}" for key, why in sorted(run.left_out.items()))])


def start_process(spec: Spec) -> Recorded:
    """One run in a process of its own, with the caches that this one has: a compiled case compiles once.

    Raises:
        LostError: it died, or measured no case.
    """
    with tempfile.TemporaryDirectory(prefix="coregate-study-") as scratch:
        asked, told = Path(scratch) / "spec.json", Path(scratch) / "run.json"
        asked.write_text(json.dumps(asdict(spec)))
        command = [sys.executable, "-m", "perf.study.child", str(asked), str(told)]
        child = children.run(command, Path(scratch), Path(spec.root), _environment(spec))
        if child.returncode or not told.exists():
            raise LostError(children.failure(child))
        run = from_line(told.read_text())
    if not run.points:
        raise LostError("; ".join(f"{key}: {why}" for key, why in run.left_out.items()))
    return run


def _environment(spec: Spec) -> dict[str, str]:
    found = os.environ.copy()
    found.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(spec.cache).parent / "inductor"))
    parts = [str(Path(__file__).parents[2]), found.get("PYTHONPATH", "")]
    return found | {"PYTHONPATH": os.pathsep.join(filter(None, parts))}
