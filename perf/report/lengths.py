"""Each core over its shapes: which variant is fastest at which, by how much, and what to serve with (C8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perf.contract import Case
from perf.outcome import Row
from perf.report.cases import EAGER, align, seconds

LATENCY = "latency_s"
COMPILED, EXPORTED = "compiled", "onnx"
"""Families whose best are laid beside each other: what compiles in place, and what is exported to ONNX Runtime."""


@dataclass(frozen=True)
class Lengths:
    """Seconds by shape and variant, of one core × preset × device. `shapes` are in the preset's order; every variant
    has all of them.
    """

    title: str
    shapes: Sequence[str]
    variants: Sequence[str]
    seconds: Mapping[tuple[str, str], float]

    def fastest(self, shape: str, among: Sequence[str] = ()) -> str:
        return min(among or self.variants, key=lambda variant: self.seconds[shape, variant])

    def wins(self, variant: str) -> int:
        return sum(self.fastest(shape) == variant for shape in self.shapes)

    def behind(self, shape: str, variant: str) -> float:
        """How many times as long as the fastest `variant` takes."""
        return self.seconds[shape, variant] / self.seconds[shape, self.fastest(shape)]

    def ratio(self, shape: str, family: Sequence[str], other: Sequence[str]) -> float:
        """How many times as long the best of `other` takes as the best of `family`."""
        return self.seconds[shape, self.fastest(shape, other)] / self.seconds[shape, self.fastest(shape, family)]


def lengths_table(
    rows: Mapping[str, Row], order: Mapping[tuple[str, str], Sequence[str]], families: Mapping[str, str]
) -> list[str]:
    """One block a core × preset × device with two shapes and two variants or more; empty where there is none.

    `order` gives a preset's shapes by (core, preset), `families` a variant's family. «compile : ORT» is above 1 where
    the best compiled variant is faster than the best on ONNX Runtime.
    """
    lines: list[str] = []
    for found in _blocks(rows, order):
        compiled = [name for name in found.variants if families.get(name) == COMPILED]
        exported = [name for name in found.variants if families.get(name) == EXPORTED]
        lines += [*([""] if lines else []), *_block(found, compiled, exported)]
    return lines


def _blocks(rows: Mapping[str, Row], order: Mapping[tuple[str, str], Sequence[str]]) -> list[Lengths]:
    groups: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    for key, row in rows.items():
        case = Case.parse(key)
        groups.setdefault((case.core, case.preset, case.device), {})[case.shape, case.variant] = row.metrics[LATENCY]
    found = [_lengths(" ".join(group), times, order[group[:2]]) for group, times in sorted(groups.items())]
    return [item for item in found if len(item.shapes) > 1 and len(item.variants) > 1]


def _lengths(title: str, times: Mapping[tuple[str, str], float], order: Sequence[str]) -> Lengths:
    shapes = [name for name in order if any(shape == name for shape, _ in times)]
    names = sorted({variant for _, variant in times}, key=lambda name: (name != EAGER, name))
    return Lengths(title, shapes, [n for n in names if all((shape, n) in times for shape in shapes)], times)


def _block(found: Lengths, compiled: Sequence[str], exported: Sequence[str]) -> list[str]:
    both = bool(compiled and exported)
    headings = ["shape", *found.variants, *(["compile : ORT"] if both else []), "fastest"]
    lines = [headings, [found.title]]
    for shape in found.shapes:
        times = [seconds(found.seconds[shape, variant]) for variant in found.variants]
        ratio = [f"{found.ratio(shape, compiled, exported):.2f}"] if both else []
        lines.append([f"  {shape}", *times, *ratio, found.fastest(shape)])
    lines.append(["  wins", *(f"{found.wins(v)} of {len(found.shapes)}" for v in found.variants)])
    return [*align(lines), *([_pair(found, compiled, exported)] if both else []), _recommendation(found)]


def _pair(found: Lengths, compiled: Sequence[str], exported: Sequence[str]) -> str:
    """The geometric mean: of ratios, the one that does not depend on which of the two is above the line."""
    ratios = [found.ratio(shape, compiled, exported) for shape in found.shapes]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    won = sum(ratio > 1 for ratio in ratios)
    wins = f"compile wins {won} of {len(ratios)} ({won / len(ratios):.0%})"
    return f"compile : ORT {mean:.2f} in the geometric mean; {wins}"


def _recommendation(found: Lengths) -> str:
    """The fastest everywhere; else the one that is never far behind, and where another is worth a second runner."""
    worst = {variant: max(found.behind(shape, variant) for shape in found.shapes) for variant in found.variants}
    best = min(worst, key=lambda variant: worst[variant])
    if found.wins(best) == len(found.shapes):
        return f"recommended: {best}, the fastest at every shape"
    others = [f"{shape}: {found.fastest(shape)}" for shape in found.shapes if found.fastest(shape) != best]
    return f"recommended: {best}, at most {worst[best]:.2f} times the fastest; faster at {', '.join(others)}"
