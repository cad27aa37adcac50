"""Torch's two exporters to ONNX, behind one signature, and the inputs to trace them with."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.onnx import OnnxExporterError

from perf.contract import Axis, Blueprint, Inputs
from perf.errors import UnsupportedError
from perf.runners import to_device

Axes = Mapping[str, Mapping[int, Axis]]
"""By input name and dimension, as in `Core.dynamic`."""


@dataclass(frozen=True)
class Trace:
    """What an exporter is given. `inputs` are contiguous CPU tensors in the order in which `forward` takes them; `axes`
    are those to leave open."""

    module: torch.nn.Module
    inputs: Inputs
    outputs: tuple[str, ...]
    axes: Axes
    opset: int
    external_data: bool


def trace(
    blueprint: Blueprint, module: torch.nn.Module, dtype: str, dynamic: bool, opset: int, external: bool
) -> Trace:
    """Of `module` (on any device; it is moved) at the shape asked for or, where axes stay open, at one fit for that."""
    drawn, axes = _fit_for_dynamic(blueprint) if dynamic else (blueprint.example(0), {})
    inputs = to_device({name: drawn[name] for name in _in_order(module, drawn)}, dtype, "cpu")
    return Trace(module.to("cpu"), inputs, blueprint.core.outputs, axes, opset, external)


def _in_order(module: torch.nn.Module, inputs: Inputs) -> list[str]:
    """Both exporters name a graph's inputs by position in `forward`, whatever the order of the keywords."""
    known = [name for name in inspect.signature(module.forward).parameters if name in inputs]
    return [*known, *(name for name in inputs if name not in known)]


def _fit_for_dynamic(blueprint: Blueprint) -> tuple[Inputs, Axes]:
    """Inputs of the preset's first shape that is at least two along every open axis (an exporter takes a one for a
    constant), whichever shape is asked for: all shapes share one file. An axis that is one at every shape stays closed.

    Raises:
        UnsupportedError: no shape is two along all that are two somewhere.
    """
    draws = [blueprint.preset.inputs(shape, 0) for shape in blueprint.preset.shapes]
    ones = [_ones(draw, blueprint.core.dynamic) for draw in draws]
    always = set.intersection(*ones)
    fit = next((draw for draw, found in zip(draws, ones, strict=True) if found == always), None)
    if fit is None:
        missed = ", ".join(sorted({f"{name}[{dim}]" for found in ones for name, dim in found - always}))
        raise UnsupportedError(f"no shape of the preset is two or more along each of {missed} at once: add one")
    axes = {
        name: {dim: axis for dim, axis in dims.items() if (name, dim) not in always}
        for name, dims in blueprint.core.dynamic.items()
    }
    return fit, axes


def _ones(inputs: Inputs, axes: Axes) -> set[tuple[str, int]]:
    return {(name, dim) for name, dims in axes.items() for dim in dims if inputs[name].shape[dim] == 1}


def dynamo(given: Trace, path: Path) -> None:
    """`torch.onnx.export(dynamo=True)`. Beyond 2 GB, or where asked for, weights go to `<path>.data` beside it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*shares the same shape constraints")  # as `Core.dynamic` says
        program = torch.onnx.export(
            given.module,
            kwargs=dict(given.inputs),
            dynamo=True,
            opset_version=given.opset,
            input_names=list(given.inputs),
            output_names=list(given.outputs),
            dynamic_shapes=_dims(given.inputs, given.axes) if given.axes else None,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        # This checkout's paths and line numbers: with them, the same model has another size in each folder.
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
    program.save(str(path), external_data=given.external_data or None)


def legacy(given: Trace, path: Path) -> None:
    """`torch.onnx.export(dynamo=False)`, by TorchScript's tracer: branches and lengths become constants, silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            given.module,
            (),
            str(path),
            kwargs=dict(given.inputs),
            dynamo=False,
            opset_version=given.opset,
            input_names=list(given.inputs),
            output_names=list(given.outputs),
            dynamic_axes={name: {dim: a.symbol for dim, a in dims.items()} for name, dims in given.axes.items()},
            do_constant_folding=True,
        )


EXPORTERS: Mapping[str, Callable[[Trace, Path], None]] = {"dynamo": dynamo, "legacy": legacy}


def why_not(error: OnnxExporterError) -> str:
    """The exporter's reason in one line: its cause's first line, where it has one; else its own."""
    cause: BaseException = error.__cause__ or error
    text = next((line.strip() for line in str(cause).splitlines() if line.strip()), "no reason given")
    return f"{type(cause).__name__}: {text}"[:300]


def _dims(inputs: Inputs, axes: Axes) -> dict[str, dict[int, Any]]:
    known: dict[str, Any] = {}

    def dim(axis: Axis) -> Any:
        base = f"{axis.symbol}_{axis.multiple}" if axis.multiple > 1 else axis.symbol
        known.setdefault(base, torch.export.Dim(base, min=axis.min // axis.multiple, max=axis.max // axis.multiple))
        return known[base] * axis.multiple if axis.multiple > 1 else known[base]

    return {name: {index: dim(axis) for index, axis in axes.get(name, {}).items()} for name in inputs}
