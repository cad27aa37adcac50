"""What compiles is compiled before anything is timed, by several processes at once, into the caches that the run reads.

Most of a compiled case's time is its compiler's, on one core while the others idle; but a compiler beside a measurement
would be measured too. So it happens before: each process builds a case, calls it once, and gives it up again. Meanwhile
the run does what it does not time: it counts graphs, where there are any to count. Nothing that a process finds is a
verdict: it has not loaded what the user's `conftest.py` sets.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from signal import SIGTERM
from threading import Thread
from time import perf_counter, sleep
from types import ModuleType

from perf.children import killed_by
from perf.contract import Case
from perf.errors import CoregateError, UnsupportedError, first_line
from perf.measure.device import memory_bytes
from perf.modules import is_large, weights_bytes
from perf.options import Options
from perf.room import Room
from perf.session import Session
from perf.workbench import Workbench

UNCOMPILED = frozenset({"eager", "graphed"})
"""The families of variants in which nothing is compiled, exported or converted."""

SHARE, SMALL = 0.85, 0.05
"""Of a device's memory, the share that large presets may fill together: the rest is for the small ones beside them. And
of that, up to which a preset is small, and waits for none."""

GRACE_S, POLL_S = 2.0, 0.01


@dataclass(frozen=True)
class Here:
    """In a process that compiles: its session, and the room that all processes share."""

    session: Session
    room: Room


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


def begin(run: Session, cases: Iterable[Case], tell: Callable[[str], object]) -> None:
    """Where the options ask for it, start compiling those of `cases` that are worth it; the run waits for that in
    `Session.settle`."""
    chosen = worth_it(run, cases) if run.options.precompile else []
    if chosen:
        run.background = Precompiler(run.options, chosen, tell)


def worth_it(run: Session, cases: Iterable[Case]) -> list[list[Case]]:
    """Those with something to compile, by what is built once; large presets, which wait for room, first. All shapes of
    one are called in the run's order, since what is compiled at a shape depends on those before it.
    """
    seen: dict[tuple[str, ...], list[Case]] = {}
    for case in dict.fromkeys(cases):
        variant = run.catalogue.variants[case.variant]
        if variant.family not in UNCOMPILED:
            shape = case.shape if variant.fixed_shape else ""
            seen.setdefault((case.core, case.preset, case.variant, case.device, shape), []).append(case)
    return sorted(seen.values(), key=lambda alike: not is_large(run.workbench.describe(alike[0])[1]))


def share(workbench: Workbench, case: Case) -> float:
    """Of the room that its weights fill in float32, in which they are drawn. 0 of what waits for no room: it is small,
    or reads values while it is built (what is large is built by a library that does not)."""
    try:
        size = weights_bytes(workbench.weightless(case.core, case.preset))
    except Exception:
        return 0.0
    found = size / (SHARE * memory_bytes(case.device))
    return found if found > SMALL else 0.0


class Precompiler:
    """Compiles each of `variants`, by all its cases, in one of as many fresh processes as the options say, from its
    making on. Large presets come first: they wait for room, and the others find time meanwhile. Where a process is
    killed there is no telling over which case: the rest is left to the run.
    """

    def __init__(self, options: Options, variants: Sequence[Sequence[Case]], tell: Callable[[str], object]) -> None:
        context = multiprocessing.get_context("spawn")
        self._tell = tell
        others = multiprocessing.active_children()
        with _without_main():
            self._pool = ProcessPoolExecutor(options.precompile, context, _begin, (options, Room(context)))
            self._futures = [self._pool.submit(compile_all, [case.key for case in cases]) for cases in variants]
        self._own = [child for child in multiprocessing.active_children() if child not in others]

    def wait(self) -> Iterator[str]:
        """Until all is compiled and the processes are gone; the keys of those that were."""
        try:
            for number, future in enumerate(as_completed(self._futures), start=1):
                one = future.result()
                self._tell(f"compiled {number} of {len(self._futures)}: {one}")
                yield from one.keys
            self._pool.shutdown()
        except BrokenProcessPool:
            self._tell(f"a compiling process {self._end()}: what is left is compiled when its turn comes")
        finally:
            self.stop()

    def _end(self) -> str:
        """How the one that broke the pool ended, which ends the others by SIGTERM. A thread of the pool's collects
        them, and has their statuses when it has."""
        until, first = perf_counter() + GRACE_S, None
        while first is None and perf_counter() < until:
            codes = [child.exitcode for child in self._own]
            first = next((code for code in codes if code not in (None, 0, -SIGTERM)), 0 if None not in codes else None)
            sleep(POLL_S)
        return f"was {killed_by(-first)}" if first and first < 0 else "ended"

    def stop(self) -> None:
        """At once, whatever is being compiled: else the pool would wait for it."""
        for child in self._own:
            child.terminate()
        for child in self._own:
            child.join(GRACE_S)
            child.kill()  # of those that have ended, nothing
        self._pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _without_main() -> Iterator[None]:
    """A process that is spawned within does not run the user's script again, which may have no guard around
    `pytest.main`."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _begin(options: Options, room: Room) -> None:
    """In each process, once. It ends with the one that began it, even if that was killed: it holds the device. What it
    says is said again when the run meets the case."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _HERE.append(Here(Session.start(options), room))


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def compile_all(keys: Sequence[str]) -> Compiled:
    """In one of the processes. Built and called as parity does, so that the same is compiled; what is raised is a
    reason, also what has a test skipped or ends a process, and is no `Exception`."""
    workbench, begun = _HERE[0].session.workbench, perf_counter()
    done: list[str] = []
    why: list[str] = []
    try:
        with _room(Case.parse(keys[0])):
            begun = perf_counter()
            for key in keys:
                reason = _reason(partial(workbench.first_outputs, Case.parse(key)))
                (why if reason else done).append(f"{key}, {reason}" if reason else key)
    except BaseException as error:  # the run's own SIGINT is the run's to hear
        why.append(f"{keys[0]}, {first_line(error)}")
    if left := _reason(workbench.close):
        why.append(f"giving it up, {left}")
    return Compiled(tuple(done), perf_counter() - begun, tuple(why))


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
