"""In a process that compiles before a run times anything (`perf.precompile`): each variant is built, called once at
each shape, and given up again. Nothing that is found here is a verdict: what the user's `conftest.py` sets is not
loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from time import perf_counter

from perf.contract import Case
from perf.errors import CoregateError, UnsupportedError, first_line
from perf.measure.device import memory_bytes
from perf.modules import weights_bytes
from perf.options import Options
from perf.room import Room, Whereabouts
from perf.session import Session
from perf.workbench import Workbench

SHARE, SMALL = 0.85, 0.05
"""Of a device's memory, the share that large presets may fill together: the rest is for the small ones beside them. And
of that, up to which a preset is small, and waits for none."""


@dataclass(frozen=True)
class Here:
    """In a process that compiles: its session, and what all processes share."""

    session: Session
    room: Room
    at: Whereabouts


_HERE: list[Here] = []


@dataclass(frozen=True)
class Compiled:
    """What came of one variant's cases: the `keys` of those that were built and called, `seconds` that it took its
    process, and why the others were not, a line each. That is no verdict: the run meets the case again."""

    keys: tuple[str, ...]
    seconds: float
    why: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As `a, b: 30 s; c: no memory`."""
        done = [f"{', '.join(self.keys)}: {self.seconds:.0f} s"] if self.keys else []
        return "; ".join([*done, *self.why])


def begin(options: Options, room: Room, at: Whereabouts) -> None:
    """In each process, once. It ends with the one that began it, even if that was killed: it holds the device. What it
    says is said again when the run meets the case."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel, at.folder), daemon=True).start()
    _HERE.append(Here(Session.start(options), room, at))


def _end_with(sentinel: int, scratch: Path) -> None:
    wait([sentinel])
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def compile_all(keys: Sequence[str]) -> Compiled:
    """In one of the processes. Built and called as parity does, so that the same is compiled; what is raised is a
    reason, also what has a test skipped or ends a process, and is no `Exception`."""
    workbench, begun = _HERE[0].session.workbench, perf_counter()
    done: list[str] = []
    why: list[str] = []
    try:
        _HERE[0].at.begin(keys[0])  # for its room it is built without values
        with _room(Case.parse(keys[0])):
            begun = perf_counter()
            for key in keys:
                reason = _reason(partial(_first, key))
                (why if reason else done).append(f"{key}, {reason}" if reason else key)
    except BaseException as error:  # the run's own SIGINT is the run's to hear
        why.append(f"{keys[0]}, {first_line(error)}")
    if left := _reason(workbench.close):
        why.append(f"giving it up, {left}")
    return Compiled(tuple(done), perf_counter() - begun, tuple(why))


def _first(key: str) -> None:
    _HERE[0].at.begin(key)
    _HERE[0].session.workbench.first_outputs(Case.parse(key))


def _reason(work: Callable[[], object]) -> str:
    """Why it was not done; empty where it was."""
    try:
        work()
    except (UnsupportedError, CoregateError) as reason:
        return str(reason)
    except BaseException as error:
        return first_line(error)
    return ""


@contextmanager
def _room(case: Case) -> Iterator[None]:
    """Waited for, and taken."""
    wanted = share(_HERE[0].session.workbench, case)
    with _HERE[0].room.taken(wanted) if wanted else nullcontext():
        yield


def share(workbench: Workbench, case: Case) -> float:
    """Of the room that its weights fill in float32, in which they are drawn. 0 of what waits for no room: it is small,
    or reads values while it is built (what is large is built by a library that does not)."""
    try:
        size = weights_bytes(workbench.weightless(case.core, case.preset))
    except Exception:
        return 0.0
    found = size / (SHARE * memory_bytes(case.device))
    return found if found > SMALL else 0.0
