"""How variants run: a module called with keywords. Other ways to run (ONNX Runtime, …) keep theirs in their
own file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from perf.contract import Inputs, Outputs
from perf.precision import tf32


def to_device(inputs: Inputs, dtype: str, device: str) -> dict[str, Any]:
    """Copies on `device`, contiguous, floating tensors in `dtype`; integers and plain Python values as they are."""
    return {name: _moved(value, getattr(torch, dtype), device) for name, value in inputs.items()}


def _moved(value: Any, dtype: torch.dtype, device: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    target = dtype if value.is_floating_point() else value.dtype
    return value.to(device=device, dtype=target, copy=True).contiguous()


def as_outputs(raw: Any) -> Outputs:
    """A core returns one tensor or a tuple of them; both become a tuple.

    Raises:
        TypeError: it returned something else.
    """
    if isinstance(raw, torch.Tensor):
        return (raw,)
    if isinstance(raw, tuple | list) and all(isinstance(item, torch.Tensor) for item in raw):
        return tuple(raw)
    raise TypeError(f"a core's forward returns a tensor or a tuple of tensors, not {type(raw).__name__}")


def run_eagerly(module: torch.nn.Module, device: str, dtype: str, inputs: Inputs) -> tuple[Outputs, Outputs]:
    """Outputs, on the CPU, of `module`, which is of `dtype` on `device`: of two calls, nowhere rounded to TF32."""
    prepared: Mapping[str, Any] = to_device(inputs, dtype, device)
    with torch.no_grad(), tf32(allowed=False):
        first = tuple(item.cpu() for item in as_outputs(module(**prepared)))
        second = tuple(item.cpu() for item in as_outputs(module(**prepared)))
    return first, second


class ModuleRunner:
    """Runs a module, compiled or not, inside the context that `around` makes for each call.

    `no_grad` by default and not `inference_mode`: tensors made under the latter cannot be a CUDA graph's static inputs.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        dtype: str,
        device: str,
        around: Callable[[], AbstractContextManager[Any]] = torch.no_grad,
    ) -> None:
        self._call = call
        self._dtype = dtype
        self._device = device
        self._around = around

    def prepare(self, inputs: Inputs) -> dict[str, Any]:
        return to_device(inputs, self._dtype, self._device)

    def run(self, prepared: dict[str, Any]) -> Any:
        with self._around():
            return self._call(**prepared)

    def outputs(self, raw: Any) -> Outputs:
        """Clones: a CUDA graph's outputs are overwritten by the next call."""
        return tuple(item.detach().clone() for item in as_outputs(raw))

    def counters(self) -> Mapping[str, int]:
        return {}

    def notes(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        del self._call
