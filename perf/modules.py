"""A core's module, its weights drawn and calibrated once and then copied: that takes a copy's time, and not seconds."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from types import ModuleType

import torch
from torch import Tensor, nn

from perf.contract import Preset

LARGEST = 4 << 30
"""Bytes of parameters and buffers that are kept on the host beside the variant at hand; a larger module is built
again each time."""


def build_module(preset: Preset, device: str, dtype: str) -> nn.Module:
    """A fresh module of `preset`, eval mode, its floating parameters and buffers in `dtype`, on `device`."""
    return _finished(_built(preset, device), device, dtype)


def is_large(preset: Preset) -> bool:
    """Too large for a reference in float64, and so for much beside it on a card."""
    return preset.reference != "float64"


def weights_bytes(module: nn.Module) -> int:
    """Of its parameters and buffers."""
    return sum(tensor.nbytes for tensor in _tensors(module))


@dataclass
class Modules:
    """Fresh modules of one core × preset × device after the other; of the last one a master stays on the CPU, where
    copies of it have nothing in common with it.
    """

    largest: int = LARGEST
    _key: tuple[str, ...] = ()
    _master: nn.Module | None = None

    def fresh(self, core: str, name: str, preset: Preset, device: str, dtype: str) -> nn.Module:
        """As `build_module`; `core` and `name` say whose and which preset it is."""
        key = (core, name, device)
        if key != self._key:
            self._key, self._master = key, None
            module = _built(preset, device)
            if not self._fits(module):
                return _finished(module, device, dtype)
            self._master = module.to("cpu")
        found = copied(self._master, device) if self._master is not None else None
        if found is None:
            self._master = None
            found = _built(preset, device)
        return _finished(found, device, dtype)

    def _fits(self, module: nn.Module) -> bool:
        return weights_bytes(module) <= self.largest


def copied(module: nn.Module, device: str) -> nn.Module | None:
    """A deep copy whose parameters and buffers are on `device`, tied ones still tied. None where no copy is a module of
    its own: something in it cannot be copied, or a function that it holds (a hook, a lambda) goes on calling
    `module`.
    """
    tensors = list(_tensors(module))
    if any(type(tensor) not in (Tensor, nn.Parameter) for tensor in tensors):
        return None
    moved = {id(tensor): _moved(tensor, device) for tensor in tensors}
    try:
        found: nn.Module = copy.deepcopy(module, dict(moved))
    except Exception:  # tensors that a graph made, locks, open files: whatever deepcopy has no word for
        return None
    own = {id(part) for part in chain(module.modules(), tensors)}
    return None if any(id(item) in own for item in _reached(found)) else found


def _reached(start: object) -> Iterator[object]:
    """All objects that `start` refers to, directly or not; not the code of classes and Python modules, nor their
    variables."""
    skipped = {id(vars(module)) for module in list(sys.modules.values()) if isinstance(module, ModuleType)}
    waiting, seen = [start], {id(start)}
    while waiting:
        item = waiting.pop()
        yield item
        for found in gc.get_referents(item):
            if id(found) not in seen and id(found) not in skipped and not isinstance(found, type | ModuleType):
                seen.add(id(found))
                waiting.append(found)


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    return chain(module.parameters(), module.buffers())


def _moved(tensor: Tensor, device: str) -> Tensor:
    there = tensor.detach().to(device, copy=True)
    moved = nn.Parameter(there, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else there
    moved.__dict__.update(copy.deepcopy(tensor.__dict__))
    return moved


def _built(preset: Preset, device: str) -> nn.Module:
    with torch.device(device):
        return preset.build()


def _finished(module: nn.Module, device: str, dtype: str) -> nn.Module:
    return module.to(device=device, dtype=getattr(torch, dtype)).eval().requires_grad_(False)
