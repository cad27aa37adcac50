"""Torch's two exporters to ONNX, behind one signature."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from torch.onnx import OnnxExporterError

from perf.backends import torch_export
from perf.backends.onnx_spec import Export
from perf.backends.torch_export import Example, dims, size_one
from perf.contract import Blueprint, Inputs
from perf.errors import UnsupportedError
from perf.runners import to_device


@dataclass(frozen=True)
class Trace:
    """What an exporter is given. The inputs of `example` are contiguous CPU tensors in `forward`'s order; its axes are
    those to leave open."""

    module: torch.nn.Module
    example: Example
    outputs: tuple[str, ...]
    opset: int
    external_data: bool


def trace(blueprint: Blueprint, module: torch.nn.Module, spec: Export) -> Trace:
    """Of `module` (on any device; it is moved) at the shape asked for or, where axes stay open, at one fit for that."""
    fixed = Example(blueprint.example(0), {})
    given = torch_export.example(blueprint.core, blueprint.preset) if spec.dynamic else fixed
    ordered = {name: given.inputs[name] for name in _in_order(module, given.inputs)}
    example = Example(to_device(ordered, spec.dtype, "cpu"), given.axes)
    return Trace(module.to("cpu"), example, blueprint.core.outputs, spec.opset, spec.external_data)


def _in_order(module: torch.nn.Module, inputs: Inputs) -> list[str]:
    """Both exporters name a graph's inputs by position in `forward`, whatever the order of the keywords."""
    known = [name for name in inspect.signature(module.forward).parameters if name in inputs]
    return [*known, *(name for name in inputs if name not in known)]


def write(exporter: str, given: Trace, path: Path) -> None:
    """The model at `path`.

    Raises:
        UnsupportedError: the exporter cannot take a core that runs eagerly; its reason in one line.
        Exception: what the core itself raises, run eagerly on the same inputs.
    """
    try:
        EXPORTERS[exporter](given, path)
    except OnnxExporterError as error:
        with torch.no_grad():
            given.module(**given.example.inputs)
        raise UnsupportedError(f"{exporter} exporter: {torch_export.why_not(error.__cause__ or error)}") from error
    closed = _closed(given, path)
    if closed:
        raise UnsupportedError(f"{exporter} exporter: fixed {closed}, which Core.dynamic says to leave open")


def dynamo(given: Trace, path: Path) -> None:
    """`torch.onnx.export(dynamo=True)`. Beyond 2 GB, or where asked for, weights go to `<path>.data` beside it."""
    example = given.example
    with size_one(example), _without("shares the same shape constraints"):  # as equal symbols in `Core.dynamic` say
        program = torch.onnx.export(
            given.module,
            kwargs=dict(example.inputs),
            dynamo=True,
            opset_version=given.opset,
            input_names=list(example.inputs),
            output_names=list(given.outputs),
            dynamic_shapes=dims(example.inputs, example.axes) if example.axes else None,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph.all_nodes():
        # This checkout's paths and line numbers: with them, the same model has another size in each folder.
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
    program.save(str(path), external_data=given.external_data or None)


def legacy(given: Trace, path: Path) -> None:
    """`torch.onnx.export(dynamo=False)`, by TorchScript's tracer: branches and lengths become constants, silently."""
    axes = given.example.axes
    with _without("legacy TorchScript-based ONNX export"):  # as asked
        torch.onnx.export(
            given.module,
            (),
            str(path),
            kwargs=dict(given.example.inputs),
            dynamo=False,
            opset_version=given.opset,
            input_names=list(given.example.inputs),
            output_names=list(given.outputs),
            dynamic_axes={name: {dim: axis.symbol for dim, axis in dims.items()} for name, dims in axes.items()},
            do_constant_folding=True,
        )


EXPORTERS: Mapping[str, Callable[[Trace, Path], None]] = {"dynamo": dynamo, "legacy": legacy}


@contextmanager
def _without(warning: str) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f"(?s).*{warning}")
        yield


def _closed(given: Trace, path: Path) -> str:
    """Axes that were to stay open and that the exporter fixed, without a word: the file runs at one size."""
    graph = onnx.load(str(path), load_external_data=False).graph
    sizes = {item.name: item.type.tensor_type.shape.dim for item in graph.input}
    places = [(name, dim) for name, dims in given.example.axes.items() for dim in dims]
    return ", ".join(f"{name}[{dim}]" for name, dim in places if sizes[name][dim].HasField("dim_value"))
