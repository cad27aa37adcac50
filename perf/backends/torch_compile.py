"""Three ways to have a module compiled: around it, in place, and its repeated blocks alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from perf.errors import UnsupportedError

Compile = Callable[[nn.Module, Mapping[str, Any]], Callable[..., Any]]
"""Module and torch.compile's options → what to call instead."""


def wrapped(module: nn.Module, options: Mapping[str, Any]) -> Callable[..., Any]:
    """`torch.compile(module)`: another callable around the module."""
    compiled: Callable[..., Any] = torch.compile(module, **options)
    return compiled


def in_place(module: nn.Module, options: Mapping[str, Any]) -> nn.Module:
    """`module.compile()`: the same object, its call compiled; what holds a reference to it runs compiled too. Of a
    class of torch.nn's its forward, since torch 2.11 then compiles nothing.
    """
    if type(module).__module__.startswith("torch.nn."):
        module.forward = torch.compile(module.forward, **options)
    else:
        module.compile(**options)
    return module


def regional(module: nn.Module, options: Mapping[str, Any]) -> nn.Module:
    """The blocks that repeat, each compiled, so that one block's compilation serves all of its kind.

    diffusers' own `compile_repeated_blocks` where the model has it, else every block of each outermost `nn.ModuleList`.

    Raises:
        UnsupportedError: nothing in the module repeats.
    """
    own: Any = next((part for part in module.modules() if getattr(part, "_repeated_blocks", None)), None)
    if own is not None:
        own.compile_repeated_blocks(**options)
        return module
    blocks = [block for blocks in _outermost_lists(module) for block in blocks]
    if not blocks:
        raise UnsupportedError("no nn.ModuleList in this core: nothing repeats that could be compiled once")
    for block in blocks:
        in_place(block, options)
    return module


def _outermost_lists(module: nn.Module) -> list[nn.ModuleList]:
    found: list[nn.ModuleList] = []
    for child in module.children():
        found += [child] if isinstance(child, nn.ModuleList) else _outermost_lists(child)
    return found
