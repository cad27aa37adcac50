"""Which variants a matrix holds. `standard`: those that everyone wants (`Variant.standard_on`). `covering`: a set in
which every option value of every family that can run stands at least once. `full`: all.

The covering set is chosen greedily: what is standard, then, in the catalogue's order, each variant that brings an
option value which none chosen before has. Options that only differ together (a mode with a dynamic) are left to `full`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perf.contract import Variant

MATRICES = ("standard", "covering", "full")

OptionValue = tuple[str, str, str]
"""Family, option, value."""


def chosen(variants: Iterable[Variant], device: str, matrix: str, runs: frozenset[str]) -> list[str]:
    """Names of the variants in `matrix` on `device`. `runs` are the names of those that can run there: a variant that
    is skipped covers nothing.
    """
    everything = list(variants)
    if matrix == "full":
        return [variant.name for variant in everything]
    standard = [variant for variant in everything if device in variant.standard_on]
    names = {variant.name for variant in standard}
    if matrix == "covering":
        names |= set(_covering(standard, [variant for variant in everything if variant.name in runs], runs))
    return [variant.name for variant in everything if variant.name in names]


def option_values(variant: Variant) -> Iterator[OptionValue]:
    """Each option with its value; the values of an option that is itself a mapping count one by one."""
    yield variant.family, "dtype", variant.dtype
    for name, value in variant.options.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        yield from ((variant.family, f"{name}.{key}" if key else name, repr(item)) for key, item in inner)


def _covering(standard: list[Variant], runnable: list[Variant], runs: frozenset[str]) -> Iterator[str]:
    covered = {value for variant in standard if variant.name in runs for value in option_values(variant)}
    for variant in runnable:
        brings = set(option_values(variant)) - covered
        if brings:
            covered |= brings
            yield variant.name
