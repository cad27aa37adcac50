"""Ahead of time: `torch.export`, and what AOTInductor compiles of it into a package that needs none of the core's code.

`export-eager` runs the exported program itself, uncompiled: the cheap check that a core can be exported.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from perf.contract import Blueprint, Variant
from perf.needs import all_of, compiler, device_present, shared_cxx_library

if TYPE_CHECKING:
    from perf.backends.aot_package import AotRunner
    from perf.backends.torch_export import ExportedRunner


def build(blueprint: Blueprint, dtype: str) -> AotRunner:
    from perf.backends.aot_package import AotRunner

    return AotRunner(blueprint, dtype)


def build_exported(blueprint: Blueprint) -> ExportedRunner:
    from perf.backends.torch_export import ExportedRunner, example, export, smallest

    given = example(blueprint.core, blueprint.preset)
    program = export(blueprint.module("float32"), given, "float32", blueprint.device)
    # of a multiple the program runs at one as well, which its bounds leave out; a package does not
    plain = {name: {dim: axis for dim, axis in dims.items() if axis.multiple == 1} for name, dims in given.axes.items()}
    return ExportedRunner(program.module(), "float32", blueprint.device, smallest(program, plain))


def host_compiler(device: str) -> str | None:
    """A package is a C++ library, whatever the device of its kernels."""
    return compiler("cpu") or shared_cxx_library(device)


def variant(name: str, dtype: str = "float32") -> Variant:
    """Not standard: the C++ compiler of a package takes 10 to 50 s on a CPU, and minutes for a network's full size."""
    return Variant(
        name=name,
        build=partial(build, dtype=dtype),
        dtype=dtype,
        missing=all_of(host_compiler, compiler),
        standard_on=(),
        exports=True,
        options={"how": "aot_inductor"},
    )


VARIANTS = [
    variant("aot-inductor"),
    variant("aot-inductor-bf16", "bfloat16"),
    Variant(
        "export-eager",
        build_exported,
        missing=device_present,
        standard_on=("cpu",),
        exports=True,
        options={"how": "export"},
    ),
]
