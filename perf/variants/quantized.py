"""8-bit weights and activations: ONNX Runtime's quantisers and torchao's, judged by SQNR and the core's task.

`quant-ort-static-<format>-<activation><weight>[-<what differs>]`: u8 and s8 are unsigned and signed 8-bit integers.
`quant-ao-<scheme>` runs as torchao leaves it, `-inductor` compiled, as torchao means it to be run; `-reduce_overhead`
and `-max_autotune` compiled in those modes of torch.compile, `-regional` its repeated blocks alone.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch._inductor

from perf.backends.onnx_spec import CPU, CUDA, SessionSpec, chosen
from perf.backends.quantized_spec import Recipe, no_saturation
from perf.backends.torch_compile import Compile, regional, wrapped
from perf.contract import Blueprint, Variant
from perf.needs import Need, all_of, compiler, cuda_only, device_present, execution_provider, package

if TYPE_CHECKING:
    from perf.backends.quantized_onnx import QuantizedRunner
    from perf.backends.quantized_torch import TorchaoRunner

U8S8 = Recipe()
U8U8 = replace(U8S8, weight="QUInt8")
S8S8 = replace(U8S8, activation="QInt8")
PER_CHANNEL = replace(U8S8, per_channel=True)
DYNAMIC = Recipe(static=False, weight="QUInt8")

ON_CPU = SessionSpec()
ON_CUDA = SessionSpec(providers=(CUDA,))
SIGNED = SessionSpec(config={"session.qdqisint8allowed": "1"})
"""On x86, ONNX Runtime leaves most layers with signed activations in float, unless it is told that they may run."""

FLOAT8_CAPABILITY = (8, 9)

KEPT_IN = {"int8wo": "int8", "int8dyn": "int8", "fp8": "float8_e4m3fn", "fp8wo": "float8_e4m3fn"}
"""By torchao's scheme, the dtype of weights; but for `wo`, weights only, it is multiplied in as well."""


def build_onnx(blueprint: Blueprint, recipe: Recipe, session: SessionSpec) -> QuantizedRunner:
    from perf.backends.quantized_onnx import QuantizedRunner, quantize

    return QuantizedRunner(quantize(blueprint, recipe), session, recipe, blueprint.example(0))


def onnx_variant(
    name: str, recipe: Recipe, session: SessionSpec = ON_CPU, standard_on: tuple[str, ...] = ()
) -> Variant:
    needs: list[Need] = [package("onnx", "onnx"), package("onnxscript", "onnxscript")]
    needs += [execution_provider(provider) for provider in session.providers]
    if recipe.may_saturate and session.providers == (CPU,):
        needs.append(no_saturation)
    return Variant(
        name=f"quant-ort-{name}",
        build=partial(build_onnx, recipe=recipe, session=session),
        devices=(session.device,),
        missing=all_of(*needs),
        standard_on=standard_on,
        lossy=True,
        exports=True,
        products="int8",
        weights="int8",
        options={"providers": session.providers, **chosen(session), **asdict(recipe)},
    )


def build_torchao(blueprint: Blueprint, dtype: str, scheme: str, mode: str, how: Compile) -> TorchaoRunner:
    from perf.backends.quantized_torch import TorchaoRunner

    return TorchaoRunner(blueprint, dtype, scheme, mode, how)


def torchao_variant(
    scheme: str,
    dtype: str = "float32",
    mode: str = "",
    missing: Need = device_present,
    standard_on: tuple[str, ...] = (),
    how: Compile = wrapped,
) -> Variant:
    """Compiled in `mode`, one of torch.compile's, by way of `how`; as torchao leaves it where there is no mode."""
    suffix = {"": "", "default": "-inductor"}.get(mode, f"-{mode.replace('-', '_')}")
    suffix = suffix if how is wrapped else f"-{how.__name__}"
    needs = [package("torchao", "torchao"), missing]
    if mode:
        graphs = torch._inductor.list_mode_options(mode).get("triton.cudagraphs")
        needs += [compiler, cuda_only] if graphs else [compiler]
    return Variant(
        name=f"quant-ao-{scheme}{suffix}",
        build=partial(build_torchao, dtype=dtype, scheme=scheme, mode=mode, how=how),
        dtype=dtype,
        missing=all_of(*needs),
        standard_on=standard_on,
        lossy=True,
        options={"scheme": scheme, "mode": mode, "how": how.__name__},
        weights=KEPT_IN[scheme],
        products="" if scheme.endswith("wo") else KEPT_IN[scheme],
    )


def float8_card(device: str) -> str | None:
    """A need, as in `perf.needs`."""
    if device != "cuda":
        return "float8 products need a CUDA device of compute capability 8.9 or newer: run with --device cuda"
    absent = device_present(device)
    if absent:
        return absent
    major, minor = torch.cuda.get_device_capability()
    return None if (major, minor) >= FLOAT8_CAPABILITY else f"compute capability {major}.{minor}: float8 needs 8.9"


def float8_weights(device: str) -> str | None:
    """They are read as another dtype, which a CPU does as well."""
    return float8_card(device) if device == "cuda" else None


VARIANTS = [
    onnx_variant("dynamic-u8", DYNAMIC, standard_on=("cpu",)),
    onnx_variant("static-qdq-u8s8", U8S8),
    onnx_variant("static-qdq-u8u8", U8U8),
    onnx_variant("static-qdq-s8s8", S8S8, SIGNED),
    onnx_variant("static-qoperator-u8s8", replace(U8S8, format="QOperator")),
    onnx_variant("static-qdq-u8s8-perchannel", PER_CHANNEL),
    onnx_variant("static-qdq-u8s8-reduce_range", replace(U8S8, reduce_range=True)),
    # The one that is right on every processor: without VNNI, 8-bit signed weights saturate.
    onnx_variant("static-qdq-u8s8-perchannel-reduce_range", replace(PER_CHANNEL, reduce_range=True), ON_CPU, ("cpu",)),
    # ONNX Runtime 1.31 counts into as many bins as there are levels, which leaves entropy nothing to choose: its ranges
    # are MinMax's to the bit. With 2048 bins they clip so much that DeepLabV3 falls from 21 to 9 dB, U-Net 22 to 7.
    onnx_variant("static-qdq-u8s8-entropy", replace(U8S8, calibrator="Entropy")),
    onnx_variant("static-qdq-u8s8-percentile", replace(U8S8, calibrator="Percentile")),
    onnx_variant("cuda-static-qdq-s8s8", S8S8, ON_CUDA),
    torchao_variant("int8wo", standard_on=("cpu",)),
    torchao_variant("int8dyn"),
    torchao_variant("fp8", "bfloat16", missing=float8_card),
    torchao_variant("fp8wo", missing=float8_weights),
    torchao_variant("int8wo", "bfloat16", "default", standard_on=("cuda",)),
    torchao_variant("int8dyn", "bfloat16", "default"),
    torchao_variant("fp8", "bfloat16", "default", missing=float8_card),
    torchao_variant("fp8wo", "bfloat16", "default", missing=float8_weights),
    torchao_variant("fp8", "bfloat16", "reduce-overhead", missing=float8_card),
    torchao_variant("int8wo", "bfloat16", "reduce-overhead"),
    torchao_variant("int8wo", "bfloat16", "max-autotune"),
    torchao_variant("fp8", "bfloat16", "default", missing=float8_card, how=regional),
]
