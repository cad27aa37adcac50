"""Names the first layer at which a variant departs from the reference, or any variant from any other.

A variant is built once more on a core whose inner outputs are outputs as well: forward hooks tap the layers, and
whatever the family does with a module (compile, export, quantise) it then does with the taps in place; in an ONNX file
they are graph outputs. The search goes down the module tree: the first child that departs, its first child that does,
and so on. A layer departs by the rule of parity: RMSE over k · RMSE(eager at the variant's dtype) + floor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from perf.check.parity import SIXTEEN_BIT, rms, rmse
from perf.contract import Blueprint, Inputs, Runner, Variant
from perf.runners import ModuleRunner, as_outputs

FUSED = (
    "no layer departs once its output is asked for: the departure is in what is made of several layers at once, "
    "or in a cached file that was changed"
)
Layers = Mapping[str, torch.Tensor]
"""Outputs by layer, in the order the layers finished; a layer that ran again is `name#2`."""


def localise(plan: Blueprint, variant: Variant, inputs: Inputs, against: Variant | None = None) -> str:
    """The dotted name of the deepest first layer of `variant` that departs from `against` (default: the reference).

    `FUSED` where none does. What building the variant on the tapped core raises is raised.
    """
    found = ""
    while layers := children(plan.module("float32"), found):
        deeper = _first(plan, variant, inputs, against, layers)
        if deeper is None:
            break
        found = deeper
    return found or FUSED


def children(module: nn.Module, path: str) -> list[str]:
    """The layers right below `path`; lists of modules are never called themselves, so their elements stand for them."""
    prefix = f"{path}." if path else ""
    return [f"{prefix}{name}" for name in _called(module.get_submodule(path))]


def _called(module: nn.Module) -> Iterator[str]:
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from (f"{name}.{inner}" for inner in _called(child))
        else:
            yield name


def tapped(module: nn.Module, layers: Sequence[str], seen: list[str]) -> nn.Module:
    """`module` itself, its forward now returning its outputs and then the outputs of `layers` as they finish.

    `seen` is filled with the layers' names in that order. The signature stays, which exporters read.
    """
    taps: list[torch.Tensor] = []
    for name in layers:
        module.get_submodule(name).register_forward_hook(_hook(name, taps, seen))
    plain = module.forward

    @functools.wraps(plain)
    def forward(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        taps.clear()
        seen.clear()
        outputs = as_outputs(plain(*args, **kwargs))
        return (*outputs, *taps)

    module.forward = forward
    return module


def _hook(name: str, taps: list[torch.Tensor], seen: list[str]) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, args: Any, output: Any) -> None:
        tensor = _floating(output)
        if tensor is not None:
            taps.append(tensor.clone())  # a layer may be written over in place by the next
            seen.append(name)

    return hook


def _floating(output: Any) -> torch.Tensor | None:
    """The first floating tensor in what a layer returned: a tensor, a tuple, or a mapping (transformers' outputs)."""
    if isinstance(output, torch.Tensor):
        return output if output.is_floating_point() else None
    items = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
    return next((item for item in items if isinstance(item, torch.Tensor) and item.is_floating_point()), None)


def _first(
    plan: Blueprint, variant: Variant, inputs: Inputs, against: Variant | None, layers: Sequence[str]
) -> str | None:
    reference = _eager(plan, plan.preset.reference, inputs, layers)
    eager = _eager(plan, variant.dtype, inputs, layers)
    names = list(reference)
    other = reference if against is None else _variant(plan, against, inputs, layers, names)
    got = _variant(plan, variant, inputs, layers, names)
    k = plan.core.tolerance.k16 if variant.dtype in SIXTEEN_BIT else plan.core.tolerance.k
    floor = plan.core.tolerance.floor
    return next(
        (
            name.partition("#")[0]
            for name in names
            if not rmse(got[name], other[name]) <= k * rmse(eager[name], reference[name]) + floor * rms(reference[name])
        ),
        None,
    )


def _eager(plan: Blueprint, dtype: str, inputs: Inputs, layers: Sequence[str]) -> Layers:
    seen: list[str] = []
    runner = ModuleRunner(tapped(plan.module(dtype), layers, seen), dtype, plan.device)
    outputs = runner.outputs(runner.run(runner.prepare(inputs)))
    names = list(_numbered(seen))
    return {name: item.cpu() for name, item in zip(names, outputs[len(outputs) - len(names) :], strict=True)}


def _variant(plan: Blueprint, variant: Variant, inputs: Inputs, layers: Sequence[str], names: Sequence[str]) -> Layers:
    """`names` from the eager run: inside a graph the hooks leave no names behind."""
    core = replace(
        plan.core,
        name=f"{plan.core.name}-tapped-{len(names)}-{names[0] if names else ''}",
        outputs=(*plan.core.outputs, *(f"tap_{index}" for index in range(len(names)))),
    )
    tapping = replace(plan, core=core, module=lambda dtype: tapped(plan.module(dtype), layers, []))
    runner: Runner = variant.build(tapping)
    try:
        outputs = runner.outputs(runner.run(runner.prepare(inputs)))
    finally:
        runner.close()
    return {name: item.cpu() for name, item in zip(names, outputs[len(plan.core.outputs) :], strict=True)}


def _numbered(names: Sequence[str]) -> Iterator[str]:
    times: dict[str, int] = {}
    for name in names:
        times[name] = times.get(name, 0) + 1
        yield name if times[name] == 1 else f"{name}#{times[name]}"
