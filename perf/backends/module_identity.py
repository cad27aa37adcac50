"""What makes a module the one it is, as a hash: weights, settings, and the code that its forward can reach.

For files derived from a module and kept between runs: a stale one would pass every check, with yesterday's model in it.
"""

from __future__ import annotations

import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_DEPTH = 4
_BOOKKEEPING = frozenset(vars(torch.nn.Module())) - {"training"}
_ADDRESS = re.compile(r"0x[0-9a-f]{4,}")
_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
_HARNESS = Path(__file__).resolve().parents[1]
_TORCH = Path(torch.__file__).resolve().parent
"""Where it was built from source, it lies in no `site-packages`."""


def digest(module: torch.nn.Module, *code: object) -> str:
    """64 hex digits, the same in every process and on every device that holds the same values.

    Code is the project's own: the source files of the module's classes and of `code` (functions or classes), and of
    whatever their globals come from. Libraries are told by their version, which the caller knows; what is imported
    inside a function is not seen.
    """
    found = hashlib.sha256()
    for text in (_ADDRESS.sub("0x", repr(module)), *_settings(module)):
        found.update(text.encode())
    for name, tensor in _tensors(module):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    for path in sorted(_sources([*{kind for part in module.modules() for kind in type(part).__mro__}, *code])):
        found.update(path.read_bytes())
    return found.hexdigest()


def _settings(module: torch.nn.Module) -> Iterator[str]:
    """`epsilon = 1e-5` and the like, kept as attributes, also in a configuration object."""
    for name, part in module.named_modules():
        yield f"{name}: {_plain({key: held for key, held in vars(part).items() if key not in _BOOKKEEPING}, _DEPTH)}"


def _plain(value: Any, depth: int) -> Any:
    """The part of `value` that prints alike in every process; None in place of the rest."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, torch.nn.Module | torch.Tensor | type) or callable(value) or not depth:
        return None
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    items = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    return sorted((str(name), str(_plain(item, depth - 1))) for name, item in items.items())


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, buffers, and tensors that are mere attributes."""
    yield from module.named_parameters()
    yield from module.named_buffers()
    for name, part in module.named_modules():
        yield from ((f"{name}.{key}", held) for key, held in vars(part).items() if isinstance(held, torch.Tensor))


def _sources(code: Iterable[object]) -> set[Path]:
    waiting = {name for item in code if isinstance(name := getattr(_unwrapped(item), "__module__", None), str)}
    seen: set[str] = set()
    found: set[Path] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        path = _own_file(sys.modules.get(name))
        if path is not None:
            found.add(path)
            waiting |= set(_reached(vars(sys.modules[name]))) - seen
    return found


def _unwrapped(code: object) -> object:
    return _unwrapped(code.func) if isinstance(code, partial) else code


def _reached(variables: Mapping[str, Any]) -> Iterator[str]:
    for value in variables.values():
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str):
            yield name


def _own_file(module: ModuleType | None) -> Path | None:
    """The source file of a module that is neither a library's nor part of this package. Some name a file that is none,
    as `torch.classes` does."""
    path = Path(getattr(module, "__file__", None) or "").resolve()
    if path.suffix != ".py" or any(map(path.is_relative_to, (_STDLIB, _HARNESS, _TORCH))) or not path.is_file():
        return None
    return None if {"site-packages", "dist-packages"} & set(path.parts) else path
