"""What compiles is compiled before anything is timed, by several processes at once, into the caches that the run reads.

Most of a compiled case's time is its compiler's, on one core while the others idle; but a compiler beside a measurement
would be measured too. So it happens before: each process builds a case, calls it once, and gives it up again. Meanwhile
the run does what it does not time: it counts graphs, where there are any to count.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import wait
from threading import Thread
from time import perf_counter
from types import ModuleType
from typing import Any

from perf.contract import Case, Preset
from perf.errors import CoregateError, UnsupportedError, first_line
from perf.measure.device import memory_bytes
from perf.modules import build_module, is_large, weights_bytes
from perf.options import Options
from perf.session import Session

UNCOMPILED = "eager"
"""The family of variants in which nothing is compiled, exported or converted."""

FITS = 4
"""What would not fit so often into a device's memory is compiled alone of its kind: beside its weights a compiler holds
activations, and copies of what it tunes."""


GRACE_S = 2.0


@dataclass(frozen=True)
class Here:
    """In a process that compiles: its session, and what all processes take turns by."""

    session: Session
    turn: AbstractContextManager[Any]


_HERE: list[Here] = []


@dataclass(frozen=True)
class Compiled:
    """What came of one case: `seconds` that it took its process, and why it did not build, if it did not. That is no
    verdict: the run meets the case again."""

    key: str
    seconds: float
    why: str = ""


def begin(run: Session, cases: Iterable[Case], tell: Callable[[str], object]) -> None:
    """Where the options ask for it, start compiling those of `cases` that are worth it; the run waits for that in
    `Session.settle`."""
    chosen = worth_it(run, cases) if run.options.precompile else []
    if chosen:
        run.background = Precompiler(run.options, chosen, tell)


def worth_it(run: Session, cases: Iterable[Case]) -> list[Case]:
    """Those with something to compile, each variant of a preset once; the largest presets first."""
    seen: dict[tuple[str, ...], Case] = {}
    for case in cases:
        variant = run.catalogue.variants[case.variant]
        if variant.family != UNCOMPILED:
            shape = case.shape if variant.fixed_shape else ""
            seen.setdefault((case.core, case.preset, case.variant, case.device, shape), case)
    return sorted(seen.values(), key=lambda case: not is_large(run.workbench.describe(case)[1]))


class Precompiler:
    """Compiles each of `cases` in one of as many fresh processes as the options say, from its making on. The largest
    come first: they take turns, and the others find time meanwhile. Where a process is killed there is no telling over
    which case: the rest is left to the run.
    """

    def __init__(self, options: Options, cases: Sequence[Case], tell: Callable[[str], object]) -> None:
        context = multiprocessing.get_context("spawn")
        self._tell = tell
        others = multiprocessing.active_children()
        with _without_main():
            self._pool = ProcessPoolExecutor(options.precompile, context, _begin, (options, context.Lock()))
            self._futures = [self._pool.submit(compile_case, case.key) for case in cases]
        self._own = [child for child in multiprocessing.active_children() if child not in others]

    def wait(self) -> Iterator[str]:
        """Until all is compiled and the processes are gone; the keys of those that were."""
        try:
            for number, future in enumerate(as_completed(self._futures), start=1):
                one = future.result()
                self._tell(f"compiled {number} of {len(self._futures)}: {one.key}, {one.why or f'{one.seconds:.0f} s'}")
                yield from [] if one.why else [one.key]
            self._pool.shutdown()
        except BrokenProcessPool:
            self._tell("a compiling process was killed: what is left is compiled when its turn comes")
        finally:
            self.stop()

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


def _begin(options: Options, turn: AbstractContextManager[Any]) -> None:
    """In each process, once. It ends with the one that began it, even if that was killed: it holds the device. What it
    says is said again when the run meets the case."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _HERE.append(Here(Session.start(options), turn))


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def compile_case(key: str) -> Compiled:
    """In one of the processes. Built and called as parity does, so that the same is compiled; what is raised is a
    reason, also what has a test skipped or ends a process, and is no `Exception`."""
    workbench, case, begun, why = _HERE[0].session.workbench, Case.parse(key), perf_counter(), ""
    _, preset, variant, _ = workbench.describe(case)
    try:
        with _HERE[0].turn if _fills(preset, variant.dtype, case.device) else nullcontext():
            begun = perf_counter()
            workbench.first_outputs(case)
    except (UnsupportedError, CoregateError) as reason:
        why = str(reason)
    except BaseException as error:  # the run's own SIGINT is the run's to hear
        why = first_line(error)
    finally:
        workbench.close()
    return Compiled(key, perf_counter() - begun, why)


def _fills(preset: Preset, dtype: str, device: str) -> bool:
    """By the weights alone, which are asked for where the preset is large."""
    if not is_large(preset):
        return False
    try:
        module = build_module(preset, "meta", dtype)
    except Exception:  # it reads values while it is built; what is that large, is built by a library that does not
        return False
    return FITS * weights_bytes(module) > memory_bytes(device)
