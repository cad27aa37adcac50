"""Discover cores and variants by module constant, and multiply them into cases, or skips with their reasons."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from perf.contract import Case, Core, Skip, Variant
from perf.covering import chosen
from perf.errors import CoregateError
from perf.names import check_names

DEVICES = ("cpu", "cuda")
OWN_VARIANTS = Path(__file__).parent / "variants"
DEFAULT_PRESET = {"cpu": "tiny", "cuda": "full"}

Missing = Callable[[str, str], str | None]
"""(variant, device) → None where it can run, else what is missing."""

Absent = Callable[[str], str | None]
"""Core → the same of what it needs to be built."""


@dataclass(frozen=True)
class Catalogue:
    """All cores and variants by name, sorted. `sources` says which file each came from."""

    cores: Mapping[str, Core]
    variants: Mapping[str, Variant]


@dataclass(frozen=True)
class Selection:
    """Shell patterns over names; an empty tuple means the default of that axis. `matrix` is one of
    `perf.covering.MATRICES`."""

    cores: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    matrix: str = "standard"

    def covers_key(self, key: str) -> bool:
        """`covers`, of the key of a case or of a graph subject, which no variant and shape narrows."""
        parts = key.split("/")
        if len(parts) == 5:
            return self.covers(Case.parse(key))
        core, preset, device, _ = parts
        return replace(self, variants=(), shapes=()).covers(Case(core, preset, "", "", device))

    def covers(self, case: Case) -> bool:
        """Whether this selection, at full matrix, could have asked for `case`, in the catalogue or gone from it."""
        return (
            _any(self.cores or ("*",), case.core)
            and _any(self.variants or ("*",), case.variant)
            and _any(self.presets or ("*",), case.preset)
            and _any(self.shapes or ("*",), case.shape)
            and case.device in self.devices
        )


def discover(core_folders: Iterable[Path], variant_folders: Iterable[Path], root: Path) -> Catalogue:
    """Import every file of the folders and collect its `CORES` / `VARIANTS`.

    Raises:
        CoregateError: a folder is absent, a file does not import or lacks the constant, a name is none or comes twice.
    """
    cores = collect(core_folders, "CORES", root)
    variants = collect(
        [OWN_VARIANTS, *variant_folders], "VARIANTS", root, lambda variant, stem: replace(variant, family=stem)
    )
    check_names(cores.values(), variants.values())
    return Catalogue(cores, variants)


def collect(
    folders: Iterable[Path], constant: str, root: Path, adopt: Callable[[Any, str], Any] = lambda item, _: item
) -> dict[str, Any]:
    """What the files of `folders` list under `constant`, by name, sorted; `adopt` is given each with its file's stem.

    Raises:
        CoregateError: as `discover`.
    """
    found: dict[str, tuple[Any, Path]] = {}
    for path in _files(folders):
        for item in _constant(path, constant, root):
            if item.name in found:
                raise CoregateError(
                    f"{constant}: the name {item.name!r} stands in {found[item.name][1]} and in {path}: rename one"
                )
            found[item.name] = (adopt(item, path.stem), path)
    return {name: found[name][0] for name in sorted(found)}


def _files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        if not folder.is_dir():
            raise CoregateError(f"no folder {folder}: perf_cores and perf_variants name folders of *.py files")
        yield from sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))


def _constant(path: Path, constant: str, root: Path) -> Iterable[Any]:
    module = _import(path, root)
    items = getattr(module, constant, None)
    if not isinstance(items, list | tuple):
        raise CoregateError(f"{path} has no {constant} = [...]: add it, or move the file out of this folder")
    return items


def _import(path: Path, root: Path) -> object:
    """By dotted name, so that files of one folder can import each other; the folder's root joins `sys.path`."""
    base = OWN_VARIANTS.parents[1] if path.is_relative_to(OWN_VARIANTS) else root
    if not path.resolve().is_relative_to(base.resolve()):
        raise CoregateError(f"{path} lies outside {base}: perf_cores and perf_variants are folders below the rootdir")
    if str(base) not in sys.path:
        sys.path.insert(0, str(base))
    name = ".".join(path.resolve().relative_to(base.resolve()).with_suffix("").parts)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except Exception as error:
        raise CoregateError(f"{path} does not import: {type(error).__name__}: {error}") from error
    if Path(str(module.__file__)).resolve() != path.resolve():
        raise CoregateError(f"{name} imports from {module.__file__}, not from {path}: rename the folder")
    return module


def expand(catalogue: Catalogue, selection: Selection) -> tuple[list[Case], list[Skip]]:
    """The product core × preset × variant × shape × device that `selection` asks for, in catalogue order.

    Raises:
        CoregateError: a pattern matches no name there is; near matches are listed.
    """
    _check_names(catalogue, selection)
    missing = cache(lambda name, device: catalogue.variants[name].missing(device))
    absent = cache(lambda core: catalogue.cores[core].missing())
    variants = {device: _variants(catalogue, device, selection, missing) for device in selection.devices}
    cases: list[Case] = []
    skips: list[Skip] = []
    for core, device in product(select(catalogue.cores, selection.cores), selection.devices):
        for case in _cases_of(catalogue.cores[core], device, selection, variants[device]):
            skip = _skip(catalogue, case, missing, absent)
            if skip is None:
                cases.append(case)
            else:
                skips.append(skip)
    return cases, skips


def keys(catalogue: Catalogue, selection: Selection) -> set[str]:
    """Of the product that `selection` asks for, whether a case can run here or not: nothing is asked of the machine,
    which in the full matrix imports every library that a variant needs.
    """
    return {
        case.key
        for core, device in product(select(catalogue.cores, selection.cores), selection.devices)
        for case in _cases_of(
            catalogue.cores[core], device, selection, _variants(catalogue, device, selection, lambda name, device: None)
        )
    }


def _cases_of(core: Core, device: str, selection: Selection, variants: Sequence[str]) -> Iterator[Case]:
    for preset in presets_of(core, device, selection):
        for variant, shape in product(variants, _shapes(core, preset, selection)):
            yield Case(core.name, preset, variant, shape, device)


def _variants(catalogue: Catalogue, device: str, selection: Selection, missing: Missing) -> list[str]:
    """By name where names are given, whatever the matrix; else what the matrix holds."""
    if selection.variants:
        return select(catalogue.variants, selection.variants)
    if selection.matrix != "covering":  # the others hold the same whatever runs here
        return chosen(catalogue.variants.values(), device, selection.matrix, frozenset())
    runs = frozenset(
        variant.name
        for variant in catalogue.variants.values()
        if device in variant.devices and missing(variant.name, device) is None
    )
    return chosen(catalogue.variants.values(), device, selection.matrix, runs)


def presets_of(core: Core, device: str, selection: Selection) -> list[str]:
    """Those asked for, else the device's default (in the full matrix, all of its size), else the core's first."""
    default = DEFAULT_PRESET.get(device, "tiny")
    patterns = selection.presets or ((f"{default}*",) if selection.matrix == "full" else (default,))
    return select(core.presets, patterns) or ([] if selection.presets else list(core.presets)[:1])


def _shapes(core: Core, preset: str, selection: Selection) -> list[str]:
    names = [shape.name for shape in core.presets[preset].shapes]
    if selection.shapes:
        return [name for name in names if _any(selection.shapes, name)]
    return names if selection.matrix == "full" else names[:1]


def _skip(catalogue: Catalogue, case: Case, missing: Missing, absent: Absent) -> Skip | None:
    unfit = _why_not(catalogue, case)
    if unfit is not None:
        return Skip(case, unfit)
    lacking = absent(case.core) or missing(case.variant, case.device)
    return None if lacking is None else Skip(case, lacking, lacking=True)


def _why_not(catalogue: Catalogue, case: Case) -> str | None:
    core, variant = catalogue.cores[case.core], catalogue.variants[case.variant]
    for pattern, reason in core.unsupported.items():
        name, _, device = pattern.partition("@")
        if fnmatchcase(case.variant, name) and fnmatchcase(case.device, device or "*"):
            return reason
    if core.impure and variant.exports:
        return f"not exported: {core.impure}"
    if case.device not in variant.devices:
        return f"runs on {' and '.join(variant.devices)} only"
    return None


def _check_names(catalogue: Catalogue, selection: Selection) -> None:
    presets = {name for core in catalogue.cores.values() for name in core.presets}
    shapes = {s.name for core in catalogue.cores.values() for p in core.presets.values() for s in p.shapes}
    known = (
        ("--core", selection.cores, catalogue.cores),
        ("--variant", selection.variants, catalogue.variants),
        ("--preset", selection.presets, presets),
        ("--shape", selection.shapes, shapes),
        ("--device", selection.devices, DEVICES),
    )
    for option, patterns, names in known:
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                near = get_close_matches(pattern, sorted(names), n=3, cutoff=0.4) or sorted(names)[:8]
                raise CoregateError(f"{option} {pattern}: no such name; near: {', '.join(near) or 'none known'}")


def select(names: Iterable[str], patterns: tuple[str, ...]) -> list[str]:
    """Those that a pattern fits, all where there is none."""
    return [name for name in names if not patterns or _any(patterns, name)]


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
