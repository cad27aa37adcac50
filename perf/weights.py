"""Checkpoints into cores, by the loader that the project names: `perf_weights = fixtures.weights`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from perf.catalogue import Catalogue
from perf.contract import Core, Preset
from perf.errors import CoregateError

if TYPE_CHECKING:
    import torch


class Loader(Protocol):
    """What the module that `perf_weights` names must have. Errors it means for the user are one-line `ValueError`s."""

    def load_into(self, module: torch.nn.Module, path: str) -> None: ...
    def save_as(self, module: torch.nn.Module, path: str) -> None: ...


def loader(name: str) -> Loader:
    """The module of that dotted name.

    Raises:
        CoregateError: none is named, or it does not import.
    """
    if not name:
        raise CoregateError("no loader for weights: set perf_weights = <module> in the pytest configuration")
    try:
        return cast("Loader", importlib.import_module(name))
    except ImportError as error:
        raise CoregateError(f"perf_weights = {name}: it does not import: {error}") from error


def with_weights(catalogue: Catalogue, weights: Mapping[str, str], module: str, presets: Iterable[str]) -> Catalogue:
    """The catalogue in which each core of `weights` is built and then given its checkpoint. Tried at once on `presets`
    (all of the core's where none is named), so that a wrong file ends the run before anything is measured.

    Raises:
        CoregateError: no such core, no such file, or a checkpoint that does not fit.
    """
    if not weights:
        return catalogue
    unknown = sorted(set(weights) - set(catalogue.cores))
    if unknown:
        raise CoregateError(f"--weights {unknown[0]}=…: no such core; there are {', '.join(catalogue.cores)}")
    found = loading(catalogue, weights, module)
    for core in (found.cores[name] for name in weights):
        for preset in set(presets) & set(core.presets) or {next(iter(core.presets))}:
            core.presets[preset].build()
    return found


def loading(catalogue: Catalogue, weights: Mapping[str, str], module: str) -> Catalogue:
    """The same, untried: a checkpoint is read when a core is built.

    Raises:
        CoregateError: the loader does not import.
    """
    if not weights:
        return catalogue
    load = loader(module).load_into
    cores = {name: _loaded(catalogue.cores[name], Path(path), load) for name, path in weights.items()}
    return replace(catalogue, cores={**catalogue.cores, **cores})


Load = Callable[["torch.nn.Module", str], None]


def _loaded(core: Core, path: Path, load: Load) -> Core:
    presets = {
        name: replace(preset, build=partial(_build, preset, path, load)) for name, preset in core.presets.items()
    }
    return replace(core, presets=presets)


def _build(preset: Preset, path: Path, load: Load) -> torch.nn.Module:
    module = preset.build()
    try:
        load(module, str(path))
    except ValueError as error:
        raise CoregateError(f"--weights: {error}") from None
    return module
