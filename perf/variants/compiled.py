"""torch.compile: backends × modes × dynamic, one graph demanded of every pure core (`fullgraph=True`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from perf.contract import Blueprint, Variant
from perf.needs import Need, all_of, compiler, cuda_only, device_present
from perf.runners import ModuleRunner

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
DYNAMIC = {"": None, "-dynamic": True, "-static": False}


class CompiledRunner(ModuleRunner):
    """Leaves Dynamo clean on close: its caches hang on code objects and would reach into the next variant."""

    def close(self) -> None:
        super().close()
        torch._dynamo.reset()


def build(blueprint: Blueprint, dtype: str, options: Mapping[str, Any]) -> CompiledRunner:
    torch._dynamo.reset()
    module = blueprint.module(dtype)
    call = torch.compile(module, fullgraph=not blueprint.core.impure, **options)
    return CompiledRunner(call, dtype, blueprint.device)


def variant(name: str, missing: Need, standard_on: tuple[str, ...] = ("cpu", "cuda"), **options: Any) -> Variant:
    return Variant(
        name=name,
        build=partial(build, dtype="float32", options=options),
        missing=missing,
        standard_on=standard_on,
        options={"fullgraph": True, **options},
    )


def _mode_variants() -> list[Variant]:
    """CUDA graphs and autotuning stand on CUDA's standard matrix; on a CPU the default mode does."""
    return [
        variant(
            f"inductor-{mode.replace('-', '_')}{suffix}",
            all_of(compiler, cuda_only) if mode in ("reduce-overhead", "max-autotune") else compiler,
            standard_on=("cuda", "cpu") if mode == "default" and not suffix else ("cuda",) if not suffix else (),
            backend="inductor",
            mode=mode,
            dynamic=dynamic,
        )
        for mode in MODES
        for suffix, dynamic in DYNAMIC.items()
    ]


VARIANTS = [
    variant("compile_eager", device_present, (), backend="eager"),
    variant("aot_eager", device_present, ("cpu", "cuda"), backend="aot_eager"),
    *_mode_variants(),
]
