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
    """What a variant multiplies in, products and convolutions apart, and the bytes of one weight and of one value."""

    products: str
    convolutions: str
    weight_bytes: int
    value_bytes: int


def forms(variant: Variant, device: str) -> Forms:
    """By the variant's word; where it has none, as torch does by itself: on CUDA cuDNN convolves float32 in TF32."""
    products = variant.products or variant.dtype
    own_choice = not variant.products and variant.dtype == "float32" and device == "cuda"
    rounded = own_choice and torch.backends.cudnn.allow_tf32
    weights = getattr(torch, variant.weights or variant.dtype).itemsize
    return Forms(products, TF32 if rounded else products, weights, getattr(torch, variant.dtype).itemsize)


def moved_bytes(cost: Cost, form: Forms) -> float:
    """Each weight and input read once and each output written once, at the variant's own widths."""
    return form.weight_bytes * cost.weights + form.value_bytes * cost.values + cost.integer_bytes


def limit_s(cost: Cost, form: Forms, ceilings: Ceilings) -> float | None:
    """Seconds; None where a ceiling that it takes is not known."""
    parts = ((cost.flops - cost.convolution_flops, form.products), (cost.convolution_flops, form.convolutions))
    needed = [*(part for part in parts if part[0]), (moved_bytes(cost, form), COPY)]
    if any(name not in ceilings for _, name in needed):
        return None
    *arithmetic, memory = (amount / ceilings[name] for amount, name in needed)
    return max(sum(arithmetic), memory) or None
