"""What compiles is compiled before anything is timed, by several processes at once, into the caches that the run reads.

Most of a compiled case's time is its compiler's, on one core while the others idle; but a compiler beside a measurement
would be measured too. So it happens before (`perf.compiling`). Meanwhile the run does what it does not time: it counts
graphs, where there are any to count.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from types import ModuleType

from perf import compiling
from perf.children import killed_by
from perf.contract import Case
from perf.modules import is_large
from perf.options import Options
from perf.room import Room, Whereabouts
from perf.session import Crash, Session

UNCOMPILED = frozenset({"eager", "graphed"})
"""The families of variants in which nothing is compiled, exported or converted."""

OUTSIDE = frozenset({SIGHUP, SIGINT, SIGKILL, SIGTERM})
"""Signals that come from elsewhere: the kernel's where memory ran out, and those who end others. However else a process
ends, it has crashed."""

GRACE_S, POLL_S = 2.0, 0.01


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
        if run.catalogue.variants[case.variant].family not in UNCOMPILED:
            seen.setdefault(run.workbench.place(case), []).append(case)
    return sorted(seen.values(), key=lambda alike: not is_large(run.workbench.describe(alike[0])[1]))


class Precompiler:
    """Compiles each of `variants`, by all its cases, in one of as many fresh processes as the options say, from its
    making on. Large presets come first: they wait for room, and the others find time meanwhile.

    A process that ends takes the others with it. Its variant is then tried once more, alone, before all others begin
    again, and if that crashes as well, `crashed` has the case, and what of its variant cannot be told apart from it.
    Where a process was ended from outside, its variant may do better alone, and is left to the run.
    """

    def __init__(self, options: Options, variants: Sequence[Sequence[Case]], tell: Callable[[str], object]) -> None:
        self._options, self._tell = options, tell
        self._total, self._done = len(variants), 0
        self._suspects: list[Sequence[Case]] = []
        self._later: list[Sequence[Case]] = []
        self.crashed: dict[str, Crash] = {}
        self._start(variants)

    def _start(self, variants: Sequence[Sequence[Case]]) -> None:
        context = multiprocessing.get_context("spawn")
        others = multiprocessing.active_children()
        self._folder = TemporaryDirectory(prefix="coregate-compiling-", ignore_cleanup_errors=True)
        self._at = Whereabouts(Path(self._folder.name))
        shared = (self._options, Room(context), self._at)
        at_once = min(self._options.precompile, len(variants))
        self._pool = ProcessPoolExecutor(at_once, context, compiling.begin, shared)
        self._own: list[BaseProcess] = []
        try:
            with _without_main():
                self._variants = {
                    self._pool.submit(compiling.compile_all, [case.key for case in cases]): cases for cases in variants
                }
        except BaseException:
            self._own = _children_but(others)
            self.stop()
            raise
        self._own = _children_but(others)

    def wait(self) -> Iterator[str]:
        """Until all is compiled and the processes are gone; the keys of those that were."""
        try:
            while self._variants:
                left: list[Sequence[Case]] = []
                for future in as_completed(self._variants):
                    yield from self._keys(future, left)
                self._go_on([cases for cases in self._variants.values() if cases in left])
            self._pool.shutdown(wait=False)
            self._join()
        finally:
            self.stop()

    def _keys(self, future: Future[compiling.Compiled], left: list[Sequence[Case]]) -> tuple[str, ...]:
        try:
            one = future.result()
        except BrokenProcessPool:
            left.append(self._variants[future])
            return ()
        self._say(str(one))
        return one.keys

    def _say(self, what: str) -> None:
        self._done += 1
        self._tell(f"compiled {self._done} of {self._total}: {what}")

    def _go_on(self, left: Sequence[Sequence[Case]]) -> None:
        """With what a broken pool has left, if it has, and what waits for a suspect."""
        waiting, self._later, self._variants = self._later, [], {}
        if left:
            process, code = self._first_to_end()
            key = self._at.of(process)
            at = next((cases for cases in left if key in [case.key for case in cases]), None)
            if at is None:
                self._tell(f"a compiling process {_ended(code)}: what is left is compiled when its turn comes")
                return
            again = self._what_is_tried(at, key, code)
            rest = [*(cases for cases in left if cases is not at), *waiting]
            waiting, self._later = (again, rest) if again else (rest, [])
        if waiting:
            self.stop()
            self._start(waiting)

    def _what_is_tried(self, cases: Sequence[Case], key: str, code: int | None) -> list[Sequence[Case]]:
        """Of a variant over whose case `key` a process ended, alone: all of it after a first crash. After a second one
        that case is not built any more, nor the others if it was the first to be called, since building may crash."""
        how = f"the process that compiled {key} {_ended(code)}"
        if code is not None and -code in OUTSIDE:
            self._say(f"{how}: it is compiled when its turn comes")
            return []
        if cases not in self._suspects:
            self._suspects.append(cases)
            self._tell(f"{how}: it is tried once more")
            return [cases]
        whole = key == cases[0].key
        self.crashed.update({case.key: Crash(f"{how}, twice", whole) for case in cases if whole or case.key == key})
        if whole:
            self._say(how)
            return []
        self._tell(how)
        return [[case for case in cases if case.key != key]]

    def _first_to_end(self) -> tuple[int | None, int | None]:
        """Of what broke the pool the process and its status (negative: the signal that ended it; None: none is known),
        and of several a crash. The pool ends the others by SIGTERM; a thread of it collects them, and has their
        statuses when it has."""
        until, ended = perf_counter() + GRACE_S, list[tuple[int | None, int]]()
        while not ended and perf_counter() < until:
            codes = [(child.pid, child.exitcode) for child in self._own]
            ended = [(pid, code) for pid, code in codes if code is not None and code != -SIGTERM]
            if all(code is not None for _, code in codes):
                break
            sleep(POLL_S)
        if not ended:
            return None, None
        return min(ended, key=lambda one: -one[1] in OUTSIDE)

    def stop(self) -> None:
        """At once, whatever is being compiled: else the pool would wait for it. Also where this is interrupted."""
        try:
            for child in self._own:
                child.terminate()
            self._join()
        finally:
            for child in self._own:
                child.kill()  # of those that have ended, nothing
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._folder.cleanup()
            self._join()

    def _join(self) -> None:
        """What does not end, for a thread of its own or what it has started, is not waited for."""
        until = perf_counter() + GRACE_S
        for child in self._own:
            child.join(max(0.0, until - perf_counter()))


def _children_but(others: Sequence[BaseProcess]) -> list[BaseProcess]:
    return [child for child in multiprocessing.active_children() if child not in others]


def _ended(code: int | None) -> str:
    """By its status, in words."""
    if code is None:
        return "ended"
    return f"was {killed_by(-code)}" if code < 0 else f"ended with status {code}"


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
