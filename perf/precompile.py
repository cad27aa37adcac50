"""What compiles is compiled before anything is timed, by several processes at once, into the caches that the run reads;
graphs are counted there too.

Most of a compiled case's time is its compiler's, on one core while the others idle; but a compiler beside a measurement
would be measured too. So it happens before: each process builds a case, calls it once, and gives it up again. Counting
graphs is Dynamo's work alone, 10 s a core on an H100's host: what was counted is handed to the run.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from threading import Thread
from time import perf_counter
from typing import Any

import pytest

from perf.check.graph_report import GraphReport
from perf.contract import Case, GraphSubject, Preset
from perf.errors import CoregateError, UnsupportedError, first_line
from perf.items import cases_of, subjects_of
from perf.measure.device import memory_bytes, release
from perf.modules import build_module, weights_bytes
from perf.options import Options
from perf.session import Session
from perf.wholeness import Count, graphs, plan, served_in
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
class Done:
    """What came of one job: `seconds` that it took its process, and why it came to nothing, if it did. That is no
    verdict: the run meets the case again. `report` is what `count`, by its name, found.
    """

    what: str
    key: str
    seconds: float
    why: str = ""
    count: str = ""
    report: GraphReport | None = None


Job = Callable[[], Done]


def beforehand(run: Session, items: Sequence[pytest.Item], tell: Callable[[str], object]) -> None:
    """All that `items` can be spared, in as many processes as the options say; what was counted is the run's."""
    for done in precompile(run.options, jobs(run, items), run.options.precompile, tell):
        if done.report is not None:
            run.ahead[done.count, done.key] = done.report
        elif not done.why:
            run.compiled.add(done.key)


def jobs(run: Session, items: Sequence[pytest.Item]) -> list[Job]:
    """The largest presets first: they take turns, and the others find time meanwhile."""
    cases: list[tuple[Case | GraphSubject, Job]]
    cases = [(case, partial(compile_case, case.key)) for case in worth_it(run, cases_of(items))]
    counts: list[tuple[Case | GraphSubject, Job]] = [
        (subject, partial(count_case, count, subject))
        for argument, count in (("graph_subject", graphs), ("plan_subject", plan))
        for subject in subjects_of(items, argument)
    ]
    cores = run.catalogue.cores
    ordered = sorted([*cases, *counts], key=lambda job: not _is_large(cores[job[0].core].presets[job[0].preset]))
    return [job for _, job in ordered]


def worth_it(run: Session, cases: Iterable[Case]) -> list[Case]:
    """Those with something to compile, each variant of a preset once, in their order."""
    seen: dict[tuple[str, ...], Case] = {}
    for case in cases:
        variant = run.catalogue.variants[case.variant]
        if variant.family != UNCOMPILED:
            shape = case.shape if variant.fixed_shape else ""
            seen.setdefault((case.core, case.preset, case.variant, case.device, shape), case)
    return list(seen.values())


def precompile(options: Options, jobs: Sequence[Job], processes: int, tell: Callable[[str], object]) -> Iterator[Done]:
    """Do each of `jobs` in one of `processes` fresh processes, which are gone at the end. Where one of them is killed
    there is no telling over which: the rest is left to the run. Those that fill a device take turns.
    """
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, context, _begin, (options, context.Lock())) as pool:
            try:
                futures = [pool.submit(job) for job in jobs]
                for number, future in enumerate(as_completed(futures), start=1):
                    one = future.result()
                    tell(f"{one.what} {number} of {len(jobs)}: {one.key}, {one.why or f'{one.seconds:.0f} s'}")
                    yield one
            except KeyboardInterrupt:
                for child in multiprocessing.active_children():  # else the pool waits for what they compile
                    child.terminate()
                raise
    except BrokenProcessPool:
        tell("a compiling process was killed: what is left is compiled when its turn comes")


def _begin(options: Options, turn: AbstractContextManager[Any]) -> None:
    """In each process, once. It ends with the one that began it, even if that was killed: it holds the device. What it
    is warned of, the run is warned of as well."""
    warnings.simplefilter("ignore")
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    _HERE.append(Here(Session.start(options), turn))


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def compile_case(key: str) -> Done:
    """In one of the processes."""
    workbench, case = _HERE[0].session.workbench, Case.parse(key)
    _, preset, variant, _ = workbench.describe(case)
    with _turn(preset, variant.dtype, case.device):
        begun = perf_counter()
        why = _compiled(workbench, case)
        return Done("compiled", key, perf_counter() - begun, why)


def count_case(count: Count, subject: GraphSubject) -> Done:
    """In one of the processes."""
    run = _HERE[0].session
    preset = run.catalogue.cores[subject.core].presets[subject.preset]
    with _turn(preset, served_in(preset), subject.device):
        begun = perf_counter()
        try:
            report, why = count(run, subject), ""
        except Exception as error:
            report, why = None, first_line(error)
        release(subject.device)
        return Done("counted", subject.key, perf_counter() - begun, why, count.__name__, report)


def _turn(preset: Preset, dtype: str, device: str) -> AbstractContextManager[Any]:
    return _HERE[0].turn if _fills(preset, dtype, device) else nullcontext()


def _fills(preset: Preset, dtype: str, device: str) -> bool:
    """By the weights alone, which are asked for where the preset is large."""
    if not _is_large(preset):
        return False
    try:
        module = build_module(preset, "meta", dtype)
    except Exception:  # it reads values while it is built; what is that large, is built by a library that does not
        return False
    return FITS * weights_bytes(module) > memory_bytes(device)


def _is_large(preset: Preset) -> bool:
    """Too large for a reference in float64."""
    return preset.reference != "float64"


def _compiled(workbench: Workbench, case: Case) -> str:
    """Why it did not build, if it did not. It is built and called as parity does, so that the same is compiled."""
    try:
        workbench.first_outputs(case)
    except (UnsupportedError, CoregateError) as reason:
        return str(reason)
    except Exception as error:
        return first_line(error)
    finally:
        workbench.close()
    return ""
