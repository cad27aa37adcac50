"""A core's module, its weights drawn and calibrated once and then copied: that takes a copy's time, and not seconds."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn

from perf.contract import Preset

LARGEST = 4 << 30
"""Bytes of parameters and buffers that are kept on the host beside the variant at hand; a larger module is built
again each time."""


def build_module(preset: Preset, device: str, dtype: str) -> nn.Module:
    """A fresh module of `preset`, eval mode, its floating parameters and buffers in `dtype`, on `device`."""
    with torch.device(device):
        module = preset.build()
    return _finished(module, device, dtype)


@dataclass
class Modules:
    """Fresh modules of one core × preset × device after the other; of the last one a master stays on the CPU."""

    largest: int = LARGEST
    _key: tuple[str, ...] = ()
    _master: nn.Module | None = None

    def fresh(self, core: str, name: str, preset: Preset, device: str, dtype: str) -> nn.Module:
        """As `build_module`; `core` and `name` say whose and which preset it is."""
        key = (core, name, device)
        if key != self._key:
            self._key, self._master = key, None
            with torch.device(device):
                module = preset.build()
            if sum(tensor.nbytes for tensor in _tensors(module)) > self.largest:
                return _finished(module, device, dtype)
            self._master = module.to("cpu")
        if self._master is None:
            return build_module(preset, device, dtype)
        return _finished(copied(self._master, device), device, dtype)


def copied(module: nn.Module, device: str) -> nn.Module:
    """A deep copy whose parameters and buffers are on `device`, tied ones still tied, none shared with `module`."""
    moved = {id(tensor): _moved(tensor, device) for tensor in _tensors(module)}
    return copy.deepcopy(module, moved)


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    return chain(module.parameters(), module.buffers())


def _moved(tensor: Tensor, device: str) -> Tensor:
    there = tensor.detach().to(device, copy=True)
    return nn.Parameter(there, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else there


def _finished(module: nn.Module, device: str, dtype: str) -> nn.Module:
    return module.to(device=device, dtype=getattr(torch, dtype)).eval().requires_grad_(False)
