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
from perf.session import Session

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

    A process that ends takes the others with it, and all but its variant begin again. That one is tried once more, in a
    fresh process, and if it crashes that as well, `crashed` has its keys, and why. Where a process was ended from
    outside, its variant may do better alone, and is left to the run.
    """

    def __init__(self, options: Options, variants: Sequence[Sequence[Case]], tell: Callable[[str], object]) -> None:
        self._options, self._tell = options, tell
        self._total, self._done = len(variants), 0
        self._suspects: list[Sequence[Case]] = []
        self.crashed: dict[str, str] = {}
        try:
            self._start(variants)
        except BaseException:
            self.stop()
            raise

    def _start(self, variants: Sequence[Sequence[Case]]) -> None:
        context = multiprocessing.get_context("spawn")
        others = multiprocessing.active_children()
        self._folder = TemporaryDirectory(prefix="coregate-compiling-", ignore_cleanup_errors=True)
        self._at = Whereabouts(Path(self._folder.name))
        shared = (self._options, Room(context), self._at)
        self._pool = ProcessPoolExecutor(self._options.precompile, context, compiling.begin, shared)
        try:
            with _without_main():
                self._variants = {
                    self._pool.submit(compiling.compile_all, [case.key for case in cases]): cases for cases in variants
                }
        finally:
            self._own = [child for child in multiprocessing.active_children() if child not in others]

    def wait(self) -> Iterator[str]:
        """Until all is compiled and the processes are gone; the keys of those that were."""
        try:
            while self._variants:
                left: list[Sequence[Case]] = []
                for future in as_completed(self._variants):
                    yield from self._keys(future, left)
                self._go_on([cases for cases in self._variants.values() if cases in left])
            self._pool.shutdown()
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
        """With what a broken pool has left, if it has."""
        self._variants = {}
        if not left:
            return
        process, code = self._first_to_end()
        key = self._at.of(process)
        self.stop()
        at = next((cases for cases in left if key in [case.key for case in cases]), None)
        if at is None:
            self._tell(f"a compiling process {_ended(code)}: what is left is compiled when its turn comes")
            return
        again = self._is_tried_again(at, f"the process that compiled {key} {_ended(code)}", -code in OUTSIDE)
        self._start([*([at] if again else []), *(cases for cases in left if cases is not at)])

    def _is_tried_again(self, cases: Sequence[Case], how: str, outside: bool) -> bool:
        """After a first crash. After a second one it is not built any more."""
        if outside:
            self._say(f"{how}: it is compiled when its turn comes")
        elif cases not in self._suspects:
            self._suspects.append(cases)
            self._tell(f"{how}: it is tried once more")
            return True
        else:
            self._say(how)
            self.crashed.update({case.key: f"{how}, twice" for case in cases})
        return False

    def _first_to_end(self) -> tuple[int | None, int]:
        """Of what broke the pool the process and its status (negative: the signal that ended it; 0: none is known), and
        of several a crash. The pool ends the others by SIGTERM; a thread of it collects them, and has their statuses
        when it has."""
        until, ended = perf_counter() + GRACE_S, list[tuple[int | None, int | None]]()
        while not ended and perf_counter() < until:
            codes = [(child.pid, child.exitcode) for child in self._own]
            ended = [(pid, code) for pid, code in codes if code not in (None, 0, -SIGTERM)]
            if all(code is not None for _, code in codes):
                break
            sleep(POLL_S)
        return min(((pid, code or 0) for pid, code in ended), key=lambda one: -one[1] in OUTSIDE, default=(None, 0))

    def stop(self) -> None:
        """At once, whatever is being compiled: else the pool would wait for it."""
        for child in self._own:
            child.terminate()
        for child in self._own:
            child.join(GRACE_S)
            child.kill()  # of those that have ended, nothing
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._folder.cleanup()


def _ended(code: int) -> str:
    """By its status, in words."""
    return f"was {killed_by(-code)}" if code < 0 else f"ended with status {code}" if code else "ended"


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
