"""Counts what TorchDynamo makes of a module over a sequence of calls: graphs, graph breaks by place, recompiles by
guard, recompile-limit hits. `perf.check.watch` says where each figure is taken from; its `watching` counts the same of
any code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.exc import TorchDynamoException
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from perf.check.dynamo_log import Places, one_line
from perf.check.graph_report import Break, GraphReport, Recompile
from perf.check.watch import Watch, watching
from perf.contract import Axis, Inputs

__all__ = ["Break", "GraphReport", "Recompile", "Watch", "count_graphs", "watching", "whole"]

Marks = Mapping[str, Mapping[int, Axis]]
"""By input name and dimension, as in `Core.dynamic`."""


def count_graphs(
    module: Callable[..., Any],
    calls: Sequence[Inputs],
    *,
    root: Path,
    backend: str | Callable[..., Any] = "eager",
    dynamic: bool | None = None,
    marks: Marks | None = None,
    **compile_options: Any,
) -> GraphReport:
    """Compile `module` with a backend that costs nothing, make the `calls` in turn under `no_grad`, and count.

    `marks` are dimensions to `mark_dynamic` in each call's inputs; the tensors are left as they were. Other
    `compile_options` go to `torch.compile`. Dynamo is reset before and after, so whatever was compiled before will
    compile again.

    Raises:
        TypeError: `fullgraph` was asked for: it stops at the first break, see `whole`.
        ValueError: `marks` name an input that a call does not have.
        Exception: whatever a call raises, with a note that says which one it was.
    """
    if "fullgraph" in compile_options:
        raise TypeError("count_graphs lists every break and takes no fullgraph: use whole() to demand one graph")
    with _fresh(), watching(root) as seen, torch.no_grad():
        compiled = torch.compile(module, backend=backend, dynamic=dynamic, **compile_options)
        for number, inputs in enumerate(calls):
            with _noted(number, calls), _marked(inputs, marks or {}):
                compiled(**inputs)
    return seen.report(calls=len(calls))


def count_and_serve(
    module: Callable[..., Any],
    calls: Sequence[Inputs],
    warmup: int,
    served: int,
    *,
    root: Path,
    dynamic: bool | None = None,
) -> tuple[GraphReport, GraphReport] | None:
    """`count_graphs` of `calls`, and what serving the first `served` of them adds to a warm-up with the first `warmup`
    (`added_by`), for the price of one: each is compiled once. None where serving compiles what was warmed up once more:
    both must then be counted by themselves.
    """
    with _fresh(), watching(root) as seen, torch.no_grad():
        compiled = torch.compile(module, backend="eager", dynamic=dynamic)

        def call(first: int, last: int) -> None:
            for number in range(first, last):
                with _noted(number, calls):
                    compiled(**calls[number])

        call(0, warmup)
        with watching(root) as serving:
            call(0, warmup)
            if serving.report().graphs:
                return None
            call(warmup, served)
        call(served, len(calls))
    return seen.report(calls=len(calls)), serving.report(calls=served)


def added_by(
    module: Callable[..., Any],
    warmup: Sequence[Inputs],
    served: Sequence[Inputs],
    *,
    root: Path,
    dynamic: bool | None = None,
) -> GraphReport:
    """What `served` calls still compile once the `warmup` calls were made: no graph at all where the warm-up covers."""
    with _fresh(), torch.no_grad():
        compiled = torch.compile(module, backend="eager", dynamic=dynamic)
        for inputs in warmup:
            compiled(**inputs)
        with watching(root) as seen:
            for inputs in served:
                compiled(**inputs)
    return seen.report(calls=len(served))


def whole(
    module: Callable[..., Any],
    inputs: Inputs,
    *,
    root: Path,
    backend: str | Callable[..., Any] = "eager",
    dynamic: bool | None = None,
    marks: Marks | None = None,
    **compile_options: Any,
) -> str | None:
    """None where one call compiles under `fullgraph=True`, else why not, in one line: `reason — path:line`.

    Arguments as for `count_graphs`. An error that is not Dynamo's is raised.
    """
    with _fresh(), watching(root) as seen:
        try:
            with torch.no_grad(), _marked(inputs, marks or {}):
                torch.compile(module, backend=backend, dynamic=dynamic, fullgraph=True, **compile_options)(**inputs)
        except (TorchDynamoException, ConstraintViolationError) as error:
            stack = [(frame.filename, frame.lineno or 0) for frame in getattr(error, "real_stack", None) or ()]
            found = Places(root).blame(one_line(str(error)), stack)
            return f"{found.reason} — {found.where}" if stack else found.reason
    return None if seen.report().graphs else "nothing was compiled: is torch.compile disabled here?"


@contextmanager
def _noted(number: int, calls: Sequence[Inputs]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"in call {number + 1} of {len(calls)} while counting graphs")
        raise


@contextmanager
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    try:
        yield
    finally:
        torch._dynamo.reset()


@contextmanager
def _marked(inputs: Inputs, marks: Marks) -> Iterator[None]:
    unknown = sorted(set(marks) - set(inputs))
    if unknown:
        raise ValueError(f"marks name {', '.join(unknown)}, which is no input: the inputs are {', '.join(inputs)}")
    tensors = [inputs[name] for name in marks]
    before = [dict(tensor.__dict__) for tensor in tensors]
    try:
        for tensor, axes in zip(tensors, marks.values(), strict=True):
            for dim, axis in axes.items():
                torch._dynamo.mark_dynamic(tensor, dim, min=axis.min, max=axis.max)
        yield
    finally:
        for tensor, attributes in zip(tensors, before, strict=True):
            tensor.__dict__.clear()
            tensor.__dict__.update(attributes)
