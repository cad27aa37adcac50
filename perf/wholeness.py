"""Is a core whole, and does its warm-up cover what it serves? Dynamo is asked, over the preset's shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from perf.check.graphs import GraphReport, added_by, count_and_serve
from perf.check.graphs import count_graphs as counted
from perf.contract import Core, GraphSubject, Inputs, Preset
from perf.errors import UnsupportedError, first_line
from perf.failures import let_go
from perf.measure.device import release
from perf.modules import is_large
from perf.runners import to_device
from perf.session import Session
from perf.store.counters import Counted

FULL = (torch.OutOfMemoryError, MemoryError)
"""Says nothing of a core: not that Dynamo fails on it."""


def count_graphs(run: Session, subject: GraphSubject) -> str:
    """Count, keep for the report, and say why the core is not whole; empty where it is, or says itself why not.

    Raises:
        UnsupportedError: TorchDynamo itself fails on a core that is not meant to be one graph.
    """
    core = run.catalogue.cores[subject.core]
    with run.workbench.ledger.span("checking"):
        report = _counted(run, graphs, subject)
    run.graphs[subject.key] = report
    run.counted[subject.key] = Counted(report.counters(), report.places())
    return "" if core.impure else _not_whole(report)


def check_plan(run: Session, subject: GraphSubject) -> str:
    """Whether serving after the plan's warm-up compiles anything. Empty, or what the plan does not cover."""
    with run.workbench.ledger.span("checking"):
        added = run.added.get(subject.key) or _counted(run, plan, subject)
    if not added.graphs:
        return ""
    guard = added.recompiles[0].guard if added.recompiles else "no guard named"
    return f"serving compiles {added.graphs} more graphs: {guard}"


def _counted(run: Session, count: Callable[[Session, GraphSubject], GraphReport], subject: GraphSubject) -> GraphReport:
    """Who compiles beside this may have filled the card: what fails then is tried again beside nobody."""
    try:
        return count(run, subject)
    except Exception as error:
        if run.background is None:
            raise
        let_go(error)
    run.settle()
    release(subject.device)
    return count(run, subject)


def graphs(run: Session, subject: GraphSubject) -> GraphReport:
    """What Dynamo makes of the preset's shapes, in their order; and what serving adds, where the core's plan goes
    through them in the same order. Raises as `count_graphs`."""
    core, preset = run.catalogue.cores[subject.core], _preset(run, subject)
    fresh = partial(run.workbench.module, subject.core, subject.preset, subject.device, served_in(preset))
    names, root = [shape.name for shape in preset.shapes], run.options.root
    calls, (warmup, served) = _calls(run, subject, names), _in_order(core, names, subject)
    try:
        if served and (both := count_and_serve(fresh(), calls, warmup, served, root=root)):
            report, run.added[subject.key] = both
            return report
        return counted(fresh(), calls, dynamic=subject.dynamic, root=root)
    except FULL:
        raise
    except Exception as error:
        if not core.impure:
            raise
        raise UnsupportedError(f"TorchDynamo fails on this impure core: {first_line(error)}") from error


def _in_order(core: Core, names: Sequence[str], subject: GraphSubject) -> tuple[int, int]:
    """With how many of the preset's shapes, `names`, the core's plan warms up, and how many it then serves: the first
    ones. 0 and 0 where it goes another way, and of a core that has no plan or is counted otherwise than it is served.
    """
    if core.plan is None or core.impure or subject.dynamic is not None:
        return 0, 0
    warmup, served = ([name for name in given if name in names] for given in (core.plan.warmup, core.plan.served))
    goes = warmup == list(names[: len(warmup)]) and served == list(names[: len(served)]) and len(warmup) <= len(served)
    return (len(warmup), len(served)) if goes else (0, 0)


def plan(run: Session, subject: GraphSubject) -> GraphReport:
    """What serving adds to the graphs of the core's plan's warm-up."""
    asked = run.catalogue.cores[subject.core].plan
    assert asked is not None
    dtype = served_in(_preset(run, subject))
    module = run.workbench.module(subject.core, subject.preset, subject.device, dtype)
    warmup, served = _calls(run, subject, asked.warmup), _calls(run, subject, asked.served)
    return added_by(module, warmup, served, dynamic=subject.dynamic, root=run.options.root)


def served_in(preset: Preset) -> str:
    """The dtype in which graphs are counted: of what is too large for float64 the one in which it is served. In float32
    a call of FLUX's largest shape, 5.5e14 operations, would keep an H100 busy for 11 s; the graphs are the same.
    """
    return "bfloat16" if is_large(preset) else "float32"


def _preset(run: Session, subject: GraphSubject) -> Preset:
    return run.catalogue.cores[subject.core].presets[subject.preset]


def _calls(run: Session, subject: GraphSubject, names: Sequence[str]) -> list[Inputs]:
    """Inputs at the preset's shapes of these names, in their order; names that it lacks are passed over."""
    preset = _preset(run, subject)
    shapes = {shape.name: shape for shape in preset.shapes}
    drawn = [preset.inputs(shapes[name], run.options.seed) for name in names if name in shapes]
    return [to_device(inputs, served_in(preset), subject.device) for inputs in drawn]


def _not_whole(report: GraphReport) -> str:
    if not report.graphs and not report.breaks:
        return "nothing was compiled: all of it ran eagerly"
    if report.breaks:
        first = report.breaks[0]
        return f"{sum(found.count for found in report.breaks)} graph breaks; the first at {first.where}: {first.reason}"
    return "over the recompile limit: torch runs eager without a word" if report.limit_hits else ""
