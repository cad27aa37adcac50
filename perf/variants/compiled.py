"""torch.compile: backends × modes × dynamic × options, one graph demanded of every pure core (`fullgraph=True`).

Modes are those of `torch._inductor.list_mode_options()`. A backend of your own takes one line in a variant file of
yours, after `torch._dynamo.register_backend`: `VARIANTS = [variant("compile-mine", backend="mine")]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
import torch._dynamo
import torch._inductor

from perf.backends.compiled_runners import CompiledRunner, MarkedRunner, StaticRunner
from perf.backends.torch_compile import Compile, in_place, regional, wrapped
from perf.contract import Variant
from perf.needs import Need, all_of, compiler, cuda_only, device_present
from perf.precision import tf32

DYNAMIC = {"": None, "-dynamic": True, "-static": False}
FLAGS: Mapping[str, Any] = {
    "epilogue_fusion": True,
    "fallback_random": True,
    "freezing": True,
    "shape_padding": True,
    "trace.enabled": True,
    "trace.debug_dir": ".cache/coregate/trace",
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "all": FLAGS,  # one compilation that covers them; alone each stands in the full matrix
    "epilogue_fusion": {"epilogue_fusion": True, "max_autotune": True},
    "max_autotune": {"max_autotune": True},
    "fallback_random": {"fallback_random": True},
    "shape_padding": {"shape_padding": True},
    "cudagraphs": {"triton.cudagraphs": True},
    "trace": {"trace.enabled": True, "trace.debug_dir": ".cache/coregate/trace"},
    "freezing": {"freezing": True},
}
OUTSIDE = {"openxla": ("torch_xla", "torch_xla"), "tvm": ("tvm", "apache-tvm")}


class RoundedRunner(CompiledRunner):
    """With TF32 in matrix products and convolutions, when it compiles and when it runs."""

    def run(self, prepared: dict[str, Any]) -> Any:
        with tf32(allowed=True):
            return super().run(prepared)


def listed(backend: str) -> Need:
    """The backend is one that `torch._dynamo.list_backends(None)` names, and its package is there."""

    def need(device: str) -> str | None:
        if backend not in torch._dynamo.list_backends(None):
            return f"torch.compile has no backend {backend}: register it with torch._dynamo.register_backend"
        package, install = OUTSIDE.get(backend, ("torch", "torch"))
        return None if find_spec(package) else f"package {package} is not installed: pip install {install}"

    return all_of(device_present, need)


def variant(
    name: str,
    missing: Need | None = None,
    standard_on: tuple[str, ...] = (),
    how: Compile = wrapped,
    runner: type[CompiledRunner] = CompiledRunner,
    dtype: str = "float32",
    **options: Any,
) -> Variant:
    """A variant that compiles with `options`, which go to `torch.compile` as they are."""
    return Variant(
        name=name,
        build=partial(runner, dtype=dtype, compiled=how, options=options),
        dtype=dtype,
        missing=missing or listed(str(options.get("backend", "inductor"))),
        standard_on=standard_on,
        options={"how": how.__name__, "marked": runner is MarkedRunner, **options},
    )


def _modes() -> list[Variant]:
    """In float32; on a GPU the standard is bfloat16, below."""
    return [
        variant(
            f"inductor-{mode.replace('-', '_')}{suffix}",
            all_of(compiler, cuda_only) if flags.get("triton.cudagraphs") else compiler,
            standard_on=("cpu",) if mode == "default" and not suffix else (),
            backend="inductor",
            mode=mode,
            dynamic=dynamic,
        )
        for mode, flags in torch._inductor.list_mode_options().items()
        for suffix, dynamic in DYNAMIC.items()
    ]


def _options() -> list[Variant]:
    return [
        variant(
            f"inductor-option-{name}",
            all_of(compiler, cuda_only) if options.get("triton.cudagraphs") else compiler,
            backend="inductor",
            options=dict(options),
        )
        for name, options in OPTIONS.items()
    ]


def _rounded(name: str, **options: Any) -> Variant:
    """What many run as fp32: judged as a lossy variant, held to the ceiling of TF32."""
    made = variant(name, all_of(compiler, cuda_only), runner=RoundedRunner, backend="inductor", **options)
    return replace(made, lossy=True, products="tf32", options={**made.options, "tf32": True})


def _in_their_place(name: str, **options: Any) -> Variant:
    """As a server that keeps its cache where it is: what a caller changes between two calls, it changes there."""
    made = variant(
        name, all_of(compiler, cuda_only), runner=StaticRunner, dtype="bfloat16", backend="inductor", **options
    )
    return replace(made, options={**made.options, "static_inputs": True})


VARIANTS = [
    *_modes(),
    *_options(),
    *(
        variant(f"inductor-default-{short}", compiler, standard_on, dtype=dtype, backend="inductor")
        for short, dtype, standard_on in (("bf16", "bfloat16", ("cuda",)), ("fp16", "float16", ()))
    ),
    *(
        variant(
            f"inductor-{mode.replace('-', '_')}-bf16",
            all_of(compiler, cuda_only),
            standard_on,
            dtype="bfloat16",
            backend="inductor",
            mode=mode,
        )
        for mode, standard_on in (("reduce-overhead", ("cuda",)), ("max-autotune", ()))  # autotuning takes minutes
    ),
    _in_their_place("inductor-reduce_overhead-static_inputs-bf16", mode="reduce-overhead"),
    # Weights as constants: products of one input with several weights become one product.
    *(
        variant(
            f"inductor-option-freezing-{name}-bf16",
            all_of(compiler, cuda_only),
            dtype="bfloat16",
            backend="inductor",
            options={"freezing": True, **torch._inductor.list_mode_options(name.replace("_", "-"))},
        )
        for name in ("reduce_overhead", "max_autotune")
    ),
    _rounded("inductor-default-tf32"),
    _rounded("inductor-reduce_overhead-tf32", mode="reduce-overhead"),
    variant("inductor-marked", compiler, runner=MarkedRunner, backend="inductor"),
    variant("inductor-regional", compiler, how=regional, backend="inductor"),
    variant("inductor-regional-bf16", compiler, how=regional, dtype="bfloat16", backend="inductor"),
    variant("compile_eager", backend="eager"),
    variant("compile_disabled", backend="eager", disable=True),
    variant("aot_eager", backend="aot_eager"),
    variant("aot_eager-dynamic", backend="aot_eager", dynamic=True),
    variant("aot_eager-marked", runner=MarkedRunner, backend="aot_eager"),
    variant("aot_eager-regional", how=regional, backend="aot_eager"),
    variant("aot_eager-in_place", how=in_place, backend="aot_eager"),
    variant("cudagraphs", all_of(cuda_only, listed("cudagraphs")), backend="cudagraphs"),
    *(variant(f"compile-{name}", backend=name) for name in OUTSIDE),
    variant(
        "compile-onnxrt", lambda device: "torch ≥ 2.11 has no backend onnxrt: use the onnx-* variants", backend="onnxrt"
    ),
]
