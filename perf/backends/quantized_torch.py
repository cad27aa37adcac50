"""torchao's quantised linear layers: which are quantised, how large they then are, and how they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from torch import nn
from torchao import quantization

from perf.backends.quantized_spec import describe_int8, saturates, sensitive
from perf.backends.torch_compile import Compile
from perf.contract import Blueprint
from perf.errors import UnsupportedError
from perf.runners import ModuleRunner, to_device

PACKED = 16
LEAST_ROWS = 16
Weighted = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def int8_weight_only(device: str) -> Any:
    """Weights int8, a scale a row; multiplied in the input's own dtype."""
    return quantization.Int8WeightOnlyConfig(set_inductor_config=False)


def int8_dynamic(device: str) -> Any:
    """Weights int8, a scale a row; inputs int8 by their own range at every call, a scale a row."""
    reduced = device == "cpu" and saturates(torch.cpu.get_capabilities())
    return quantization.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False, reduce_range=reduced)


def float8_dynamic(device: str) -> Any:
    """Weights and inputs float8 (e4m3), a scale a row."""
    rows = quantization.PerRow()
    return quantization.Float8DynamicActivationFloat8WeightConfig(granularity=rows, set_inductor_config=False)


def float8_weight_only(device: str) -> Any:
    """Weights float8 (e4m3), a scale a row; multiplied in the input's own dtype."""
    return quantization.Float8WeightOnlyConfig(granularity=quantization.PerRow(), set_inductor_config=False)


@dataclass(frozen=True)
class Scheme:
    """`config(device)` is torchao's configuration; none may touch Inductor's settings, which are every other variant's
    too. `fits(layer, rows, device, compiled)` says whether the product has a kernel for a linear layer that is called
    with so many rows; torchao takes others too, and the call then fails."""

    config: Callable[[str], Any]
    fits: Callable[[nn.Linear, int, str, bool], bool] = lambda layer, rows, device, compiled: True


def packs(layer: nn.Linear, rows: int, device: str, compiled: bool) -> bool:
    """Inductor multiplies int8 weights on a CPU with `torch._weight_int8pack_mm`, which in bfloat16 reads beyond rows
    whose width is no multiple of 16 and ends the process (torch 2.14.1: 20, 24 and 40 do, 16, 32, 48 and 80 do not)."""
    return not (compiled and device == "cpu") or layer.in_features % PACKED == 0


def multiplies(layer: nn.Linear, rows: int, device: str, compiled: bool) -> bool:
    """`torch._int_mm` on CUDA wants more than 16 rows, and widths that are multiples of 8 (torch 2.11)."""
    if device == "cuda":
        return rows > LEAST_ROWS and layer.in_features % 8 == 0 and layer.out_features % 8 == 0
    return packs(layer, rows, device, compiled)


SCHEMES: Mapping[str, Scheme] = {
    "int8wo": Scheme(int8_weight_only, packs),
    "int8dyn": Scheme(int8_dynamic, multiplies),
    "fp8": Scheme(float8_dynamic),
    "fp8wo": Scheme(float8_weight_only),
}


class TorchaoRunner(ModuleRunner):
    """A module whose linear layers are quantised, all but the sensitive ones; compiled by way of `how` in `mode`, where
    that is not empty.

    Raises:
        UnsupportedError: no linear layer runs, torchao takes none of those that do, or `how` does not fit the core.
    """

    def __init__(self, blueprint: Blueprint, dtype: str, scheme: str, mode: str, how: Compile) -> None:
        torch._dynamo.reset()
        module = blueprint.module(dtype)
        rows = layers_that_run(module, to_device(blueprint.example(0), dtype, blueprint.device))
        way, running, device = SCHEMES[scheme], list(rows), blueprint.device
        odd = [name for name in running if not way.fits(_linear(module, name), rows[name], device, bool(mode))]
        self._left_in_float = quantize(module, running, way.config(device), odd)
        done = sum(is_quantized(layer) for layer in module.modules())
        if not done:
            few = (
                f": {len(odd)} are of a width or called with so few rows that its kernel does not have it"
                if odd
                else ""
            )
            raise UnsupportedError(f"torchao's {scheme} takes none of this core's {len(running)} linear layers{few}")
        self._counters = {
            "quantized_nodes": done,
            "quantized_percent": 100 * done // sum(isinstance(layer, Weighted) for layer in module.modules()),
            "bytes_on_disk": saved_bytes(module),
        }
        options = {"fullgraph": not blueprint.core.impure, "mode": mode}
        call = how(module, options) if mode else module
        super().__init__(call, dtype, blueprint.device)

    def counters(self) -> Mapping[str, int]:
        return self._counters

    def notes(self) -> Mapping[str, str]:
        return {
            "torchao": version("torchao"),
            "left_in_float": ", ".join(self._left_in_float) or "none",
            "int8_instructions": describe_int8(torch.cpu.get_capabilities()),
        }

    def close(self) -> None:
        super().close()
        torch._dynamo.reset()


def layers_that_run(module: nn.Module, inputs: Mapping[str, Any]) -> dict[str, int]:
    """The linear layers, in the order in which a call with `inputs` first reaches them, each with the fewest rows that
    it is called with.

    Raises:
        UnsupportedError: it reaches none.
    """
    seen: dict[str, int] = {}
    with _watching(module, seen), torch.no_grad():
        module(**inputs)
    if not seen:
        raise UnsupportedError("no nn.Linear in this core: nothing for torchao to quantise")
    return seen


def _linear(module: nn.Module, name: str) -> nn.Linear:
    found = module.get_submodule(name)
    assert isinstance(found, nn.Linear)
    return found


@contextmanager
def _watching(module: nn.Module, seen: dict[str, int]) -> Iterator[None]:
    def note(name: str, _layer: nn.Module, called_with: tuple[torch.Tensor, ...], named: Mapping[str, Any]) -> None:
        rows = (called_with[0] if called_with else named["input"]).shape[:-1].numel()
        seen[name] = min(rows, seen.get(name, rows))

    linear = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    handles = [layer.register_forward_pre_hook(partial(note, name), with_kwargs=True) for name, layer in linear]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def quantize(module: nn.Module, running: Sequence[str], config: Any, odd: Sequence[str] = ()) -> tuple[str, ...]:
    """Quantise, in place, those of `running` that are neither sensitive nor `odd`; the names of those left."""
    left = tuple(dict.fromkeys((*sensitive(running), *odd)))
    chosen = set(running) - set(left)
    quantization.quantize_(module, config, filter_fn=lambda layer, name: name in chosen)
    return left


def is_quantized(layer: nn.Module) -> bool:
    """torchao passes over layers of a shape that it cannot take, without a word."""
    return isinstance(layer, nn.Linear) and type(layer.weight) not in (nn.Parameter, torch.Tensor)


class _Tally:
    """A file that only counts."""

    def __init__(self) -> None:
        self.bytes = 0

    def write(self, data: Any) -> int:
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        pass


def saved_bytes(module: nn.Module) -> int:
    """What `torch.save(module.state_dict(), …)` writes."""
    tally = _Tally()
    torch.save(module.state_dict(), tally)  # type: ignore[arg-type]  # it asks no more of a file than these two
    return tally.bytes
