"""`torch.export` of a core: the example it is traced with, the dimensions that stay open, and why it cannot be done."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.fx.experimental import _config as symbolic
from torch.utils._pytree import tree_unflatten

from perf.contract import Axis, Core, Inputs, Preset
from perf.errors import UnsupportedError
from perf.modules import weights_bytes
from perf.runners import ModuleRunner, to_device

Axes = Mapping[str, Mapping[int, Axis]]
"""By input name and dimension, as in `Core.dynamic`."""

LARGEST_FILE = 4 << 30
"""Bytes of weights up to which a core is written to a file: LLASA-3B's 6.8 GB in float16 kept the ONNX exporter busy
for more than a minute and a half, and FLUX has 48 GB in float32."""

_CALL = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in \w+\n\s*(?P<code>.*)')


@dataclass(frozen=True)
class Example:
    """What a core is traced with. `inputs` are CPU tensors, two or more along each of `axes`, the ones that stay open
    (an exporter takes a size of one for a constant); `axes` reach down to one where some shape of the preset does.
    """

    inputs: Inputs
    axes: Axes

    @property
    def reaches_one(self) -> bool:
        return any(axis.min < 2 for axes in self.axes.values() for axis in axes.values())


def example(core: Core, preset: Preset) -> Example:
    """Of the first shape that fits, whichever is asked for later: all shapes share one program. An axis that is one at
    every shape stays closed.

    Raises:
        UnsupportedError: no shape is two or more along all axes that are so somewhere.
    """
    draws = [preset.inputs(shape, 0) for shape in preset.shapes]
    sizes = {
        (name, dim): [draw[name].shape[dim] for draw in draws] for name, dims in core.dynamic.items() for dim in dims
    }
    open_axes = {place for place, found in sizes.items() if max(found) > 1}
    fit = next((i for i in range(len(draws)) if all(sizes[place][i] > 1 for place in open_axes)), None)
    if fit is None:
        missed = ", ".join(sorted(f"{name}[{dim}]" for name, dim in open_axes if min(sizes[name, dim]) < 2))
        raise UnsupportedError(f"no shape of the preset is two or more along each of {missed} at once: add one")
    axes = {
        name: {dim: _down_to(min(sizes[name, dim]), axis) for dim, axis in dims.items() if (name, dim) in open_axes}
        for name, dims in core.dynamic.items()
    }
    return Example(draws[fit], axes)


def _down_to(smallest: int, axis: Axis) -> Axis:
    return replace(axis, min=1) if smallest == 1 else axis


def export(module: torch.nn.Module, given: Example, dtype: str, device: str) -> ExportedProgram:
    """The program of `module`, which is on `device` in `dtype`; its open dimensions have the bounds of `given.axes`.

    Raises:
        UnsupportedError: the exporter cannot take a core that runs eagerly; its reason in one line.
        Exception: what the core itself raises, run eagerly on the same inputs.
    """
    inputs = to_device(given.inputs, dtype, device)
    try:
        with size_one(given):
            return torch.export.export(module, (), kwargs=inputs, dynamic_shapes=dims(inputs, given.axes), strict=False)
    except Exception as error:
        with torch.no_grad():
            module(**inputs)
        raise UnsupportedError(f"torch.export: {why_not(error)}") from error


def refuse_large(module: torch.nn.Module, largest: int = LARGEST_FILE) -> None:
    """Before a file is made of it.

    Raises:
        UnsupportedError: its parameters and buffers come to more than `largest` bytes.
    """
    size = weights_bytes(module)
    if size > largest:
        raise UnsupportedError(
            f"{size / 1e9:.1f} GB of weights: exported files are of up to {largest / 1e9:.1f} GB (LARGEST_FILE in "
            "perf/backends/torch_export.py); --variant names variants that need no file"
        )


@contextmanager
def size_one(given: Example) -> Iterator[None]:
    """Export and compilation assume that an open dimension is never one, unless told not to."""
    with symbolic.patch(backed_size_oblivious=given.reaches_one):  # type: ignore[attr-defined]
        yield


class ExportedRunner(ModuleRunner):
    """Runs what was exported of a core, at `sizes` (of `smallest`) and above."""

    def __init__(
        self, call: Callable[..., Any], dtype: str, device: str, sizes: Iterable[tuple[str, int, int]]
    ) -> None:
        super().__init__(call, dtype, device)
        self._sizes = tuple(sizes)

    def prepare(self, inputs: Inputs) -> dict[str, Any]:
        """As `ModuleRunner` does.

        Raises:
            UnsupportedError: a size that the core allows and what was exported of it does not.
        """
        for name, dim, least in self._sizes:
            if (size := inputs[name].shape[dim]) < least:
                raise UnsupportedError(f"torch.export took {name}[{dim}] for {least} or more, which {size} is not")
        return super().prepare(inputs)


def smallest(program: ExportedProgram, axes: Axes) -> list[tuple[str, int, int]]:
    """Of each open dimension, as input, index and size, the least size that `program` holds for. That can be more than
    `axes` ask for, and the exporter does not say so: the layout that a convolution gives to images that lie channels
    last hangs on whether the batch is more than one, and what is a multiple starts at two of them (torch 2.11.0 and
    2.14.1)."""
    _, names = tree_unflatten(program.graph_signature.user_inputs, program.call_spec.in_spec)
    held = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    return [(name, dim, _least(held[names[name]].shape[dim])) for name, dims in axes.items() for dim in dims]


def _least(size: Any) -> int:
    """`ExportedProgram.range_constraints` has the bounds that were asked for."""
    return size if isinstance(size, int) else int(size.node.shape_env.bound_sympy(size.node.expr).lower)


def dims(inputs: Inputs, axes: Axes) -> dict[str, dict[int, Any] | None]:
    """`dynamic_shapes` for every input. An axis of symbol `height` and multiple 8 is `8 * height_8`, so that its
    bounds are those of whole multiples; equal symbols are one dimension.
    """
    known: dict[str, Any] = {}

    def dim(axis: Axis) -> Any:
        name = axis.symbol if axis.multiple == 1 else f"{axis.symbol}_{axis.multiple}"
        smallest, largest = -(-axis.min // axis.multiple), axis.max // axis.multiple
        base = known.setdefault(name, Dim(name, min=smallest, max=largest))
        return base if axis.multiple == 1 else axis.multiple * base

    return {
        name: {index: dim(axis) for index, axis in axes.get(name, {}).items()} if torch.is_tensor(value) else None
        for name, value in inputs.items()
    }


def why_not(error: BaseException) -> str:
    """The exporter's reason in one line: what it says first, the first point of a list below it, the core's line."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    point = next((line.removeprefix("- ") for line in lines[1:] if line.startswith("- ")), "")
    call = _CALL.search(text)
    place = f" ({Path(call['file']).name}:{call['line']}: {call['code'].strip()})" if call else ""
    said = f"{lines[0].partition(' For more information')[0]} {point}".strip()
    return f"{type(error).__name__}: {said}"[:300] + place
