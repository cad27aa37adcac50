"""The roofline: how soon a machine could be done with a call, given what it reaches on plain products and copies.

Williams, Waterman & Patterson 2009, «Roofline», Comm. ACM 52(4): the slower of arithmetic and memory is the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from perf.contract import Cost, Variant

Ceilings = Mapping[str, float]
"""FLOP/s (of integers, operations a second) of a matrix product by the dtype it multiplies in, and `copy`, bytes read
and written a second."""

COPY, TF32 = "copy", "tf32"


@dataclass(frozen=True)
class Forms:
    """What a variant multiplies in, and the bytes of one weight and of one value."""

    products: str
    weight_bytes: int
    value_bytes: int


def forms(variant: Variant) -> Forms:
    """By the variant's word; where it has none, its dtype."""
    weights = getattr(torch, variant.weights or variant.dtype).itemsize
    return Forms(variant.products or variant.dtype, weights, getattr(torch, variant.dtype).itemsize)


def moved_bytes(cost: Cost, form: Forms) -> float:
    """Each weight and input read once and each output written once, at the variant's own widths."""
    return form.weight_bytes * cost.weights + form.value_bytes * cost.values + cost.integer_bytes


def limit_s(cost: Cost, form: Forms, ceilings: Ceilings) -> float | None:
    """Seconds; None where a ceiling that it takes is not known."""
    amounts = ((cost.flops, form.products), (moved_bytes(cost, form), COPY))
    needed = [(amount, name) for amount, name in amounts if amount]
    if any(name not in ceilings for _, name in needed):
        return None
    return max((amount / ceilings[name] for amount, name in needed), default=None)
