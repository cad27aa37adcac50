"""Plain PyTorch, at each dtype: what every ratio is against."""

from __future__ import annotations

from functools import partial

from perf.contract import Blueprint, Variant
from perf.needs import device_present
from perf.runners import ModuleRunner

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def build(blueprint: Blueprint, dtype: str) -> ModuleRunner:
    return ModuleRunner(blueprint.module(dtype), dtype, blueprint.device)


VARIANTS = [
    Variant(name=f"eager-{short}", build=partial(build, dtype=dtype), dtype=dtype, missing=device_present)
    for short, dtype in DTYPES.items()
]
