"""What compiles is compiled before anything is timed, by several processes at once, into the caches that the run reads.

Most of a compiled case's time is its compiler's, on one core while the others idle; but a compiler beside a measurement
would be measured too. So it happens before: each process builds a case, calls it once, and gives it up again.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import wait
from threading import Thread
from time import perf_counter
from typing import Any

from perf.contract import Case
from perf.errors import CoregateError, UnsupportedError, first_line
from perf.measure.device import memory_bytes, synchronise
from perf.modules import build_module, weights_bytes
from perf.options import Options
from perf.session import Session
from perf.workbench import Workbench

UNCOMPILED = "eager"
"""The family of variants in which nothing is compiled, exported or converted."""

FITS = 4
"""What would not fit so often into a device's memory is compiled alone of its kind: beside its weights a compiler holds
activations, and copies of what it tunes."""


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


def worth_it(run: Session, cases: Iterable[Case]) -> list[Case]:
    """Those with something to compile, each variant of a preset once, in their order."""
    seen: dict[tuple[str, ...], Case] = {}
    for case in cases:
        variant = run.catalogue.variants[case.variant]
        if variant.family != UNCOMPILED:
            shape = case.shape if variant.fixed_shape else ""
            seen.setdefault((case.core, case.preset, case.variant, case.device, shape), case)
    return list(seen.values())


def precompile(
    options: Options, cases: Sequence[Case], processes: int, tell: Callable[[str], object]
) -> Iterator[Compiled]:
    """Build each of `cases` in one of `processes` fresh processes, which are gone at the end. Where one of them is
    killed there is no telling over which case: the rest is left to the run. Those that fill a device take turns.
    """
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, context, _begin, (options, context.Lock())) as pool:
            try:
                futures = [pool.submit(compile_case, case.key) for case in cases]
                for number, future in enumerate(as_completed(futures), start=1):
                    one = future.result()
                    tell(f"compiled {number} of {len(cases)}: {one.key}, {one.why or f'{one.seconds:.0f} s'}")
                    yield one
            except KeyboardInterrupt:
                for child in multiprocessing.active_children():  # else the pool waits for what they compile
                    child.terminate()
                raise
    except BrokenProcessPool:
        tell("a compiling process was killed: what is left is compiled when its turn comes")


def _begin(options: Options, turn: AbstractContextManager[Any]) -> None:
    """In each process, once. It ends with the one that began it, even if that was killed: it holds the device."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _HERE.append(Here(Session.start(options), turn))


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def compile_case(key: str) -> Compiled:
    """In one of the processes."""
    workbench, case = _HERE[0].session.workbench, Case.parse(key)
    with _HERE[0].turn if _fills(workbench, case) else nullcontext():
        return _compiled(workbench, case)


def _fills(workbench: Workbench, case: Case) -> bool:
    """By the weights alone, which are asked for where the preset is too large for a reference in float64."""
    _, preset, variant, _ = workbench.describe(case)
    if preset.reference == "float64":
        return False
    try:
        module = build_module(preset, "meta", variant.dtype)
    except Exception:  # it reads values while it is built; what is that large, is built by a library that does not
        return False
    return FITS * weights_bytes(module) > memory_bytes(case.device)


def _compiled(workbench: Workbench, case: Case) -> Compiled:
    begun = perf_counter()
    try:
        runner, prepared = workbench.built(case).runner, workbench.prepared(case)
        runner.run(prepared)
        synchronise(case.device)
        why = ""
    except (UnsupportedError, CoregateError) as reason:
        why = str(reason)
    except Exception as error:
        why = first_line(error)
    workbench.close()
    return Compiled(case.key, perf_counter() - begun, why)
