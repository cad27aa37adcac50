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
from pathlib import Path
from signal import SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTERM
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from types import ModuleType

from perf import compiling
from perf.children import killed_by
from perf.contract import Case
from perf.modules import is_large
from perf.options import Options
from perf.room import Room, Whereabouts
from perf.session import Session

UNCOMPILED = frozenset({"eager", "graphed"})
"""The families of variants in which nothing is compiled, exported or converted."""

CRASHES = frozenset({SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV})
"""Signals by which a process ends of what it did itself."""

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

    A process that crashes takes the others with it, and all begin again without its variant: `crashed` has that one's
    keys, and why. One that is killed, by the kernel where memory ran out, says nothing of its variant, which may fit
    alone: what is left then is left to the run.
    """

    def __init__(self, options: Options, variants: Sequence[Sequence[Case]], tell: Callable[[str], object]) -> None:
        self._options, self._tell = options, tell
        self._total, self._done = len(variants), 0
        self.crashed: dict[str, str] = {}
        self._start(variants)

    def _start(self, variants: Sequence[Sequence[Case]]) -> None:
        context = multiprocessing.get_context("spawn")
        others = multiprocessing.active_children()
        self._folder = TemporaryDirectory(prefix="coregate-compiling-")
        self._at = Whereabouts(Path(self._folder.name))
        shared = (self._options, Room(context), self._at)
        with _without_main():
            self._pool = ProcessPoolExecutor(self._options.precompile, context, compiling.begin, shared)
            self._variants = {
                self._pool.submit(compiling.compile_all, number, [case.key for case in cases]): cases
                for number, cases in enumerate(variants)
            }
        self._own = [child for child in multiprocessing.active_children() if child not in others]

    def wait(self) -> Iterator[str]:
        """Until all is compiled and the processes are gone; the keys of those that were."""
        try:
            while self._variants:
                left: list[Sequence[Case]] = []
                for future in as_completed(self._variants):
                    yield from self._keys(future, left)
                self._go_on(left)
            self._pool.shutdown()
        finally:
            self.stop()

    def _keys(self, future: Future[compiling.Compiled], left: list[Sequence[Case]]) -> tuple[str, ...]:
        try:
            one = future.result()
        except BrokenProcessPool:
            left.append(self._variants[future])
            return ()
        self._done += 1
        self._tell(f"compiled {self._done} of {self._total}: {one}")
        return one.keys

    def _go_on(self, left: Sequence[Sequence[Case]]) -> None:
        """With what a broken pool has left, if it has."""
        variants, self._variants = list(self._variants.values()), {}
        if not left:
            return
        process, number = self._first_to_end()
        at = self._at.of(process)
        if number not in CRASHES or at is None or variants[at] not in left:
            ended = f"was {killed_by(number)}" if number else "ended"
            self._tell(f"a compiling process {ended}: what is left is compiled when its turn comes")
            return
        keys = [case.key for case in variants[at]]
        self.crashed.update(dict.fromkeys(keys, f"the process that compiled it was {killed_by(number)}"))
        self._done += 1
        self._tell(f"compiled {self._done} of {self._total}: {', '.join(keys)}, {self.crashed[keys[0]]}")
        self.stop()
        self._start([cases for cases in left if cases is not variants[at]])

    def _first_to_end(self) -> tuple[int | None, int]:
        """Of what broke the pool the process, and the signal that ended it (0: none). The pool ends the others by
        SIGTERM; a thread of it collects them, and has their statuses when it has."""
        until = perf_counter() + GRACE_S
        while perf_counter() < until:
            codes = {child.pid: child.exitcode for child in self._own}
            for process, code in codes.items():
                if code not in (None, 0, -SIGTERM):
                    return process, max(0, -(code or 0))
            if None not in codes.values():
                break
            sleep(POLL_S)
        return None, 0

    def stop(self) -> None:
        """At once, whatever is being compiled: else the pool would wait for it."""
        for child in self._own:
            child.terminate()
        for child in self._own:
            child.join(GRACE_S)
            child.kill()  # of those that have ended, nothing
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._folder.cleanup()


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
