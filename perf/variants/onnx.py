"""ONNX Runtime: exporters, shapes, precisions, providers, optimisation levels and session options, as data."""

from __future__ import annotations

from ctypes.util import find_library
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from perf.backends.onnx_spec import CUDA, CUDA_GRAPH, NO_CPU_FALLBACK, TENSORRT, Export, SessionSpec, chosen
from perf.contract import Blueprint, Variant
from perf.needs import all_of, execution_provider, package

if TYPE_CHECKING:
    from perf.backends.onnx_runners import OnnxRunner

DYNAMO = Export()
FIXED = Export(dynamic=False)
LEGACY = Export(exporter="legacy", opset=17)
HALF = Export(dtype="float16")
MIXED = Export(
    dtype="float16",
    keep_float32=(
        # Sums over many values, which leave float16's range (6.5e4), and what divides by small ones.
        *("ReduceMean", "ReduceSum", "ReduceL2", "GlobalAveragePool", "AveragePool"),
        *("LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"),
        *("Softmax", "LogSoftmax", "Exp", "Log", "Pow", "Sqrt", "Reciprocal", "Resize"),
    ),
)

ON_CPU = SessionSpec()
# `use_tf32` 0 keeps convolutions off the tensor cores of every dtype (ONNX Runtime's conv.cc), float16's too:
# DeepLabV3 took 41 ms in it on an H100, and eager 4. What is rounded anyway is left to the default.
EXACT = {"use_tf32": "0"}
ON_CUDA = SessionSpec(providers=(CUDA,), provider_options={CUDA: EXACT})
BOUND = replace(ON_CUDA, bound=True)
GRAPH = replace(BOUND, provider_options={CUDA: {**EXACT, CUDA_GRAPH: "1"}})
ROUNDED = SessionSpec(providers=(CUDA,))
ROUNDED_GRAPH = replace(ROUNDED, bound=True, provider_options={CUDA: {CUDA_GRAPH: "1"}})
# Tensor cores want channels last. In ONNX's own order DeepLabV3's kernels took 4.7 ms in float16 on an H100, two fifths
# of it in products that read two bytes at a time; Inductor, which turns the order round, 1.6.
CHANNELS_LAST = replace(ROUNDED, bound=True, provider_options={CUDA: {"prefer_nhwc": "1"}})
CHANNELS_LAST_GRAPH = replace(CHANNELS_LAST, provider_options={CUDA: {"prefer_nhwc": "1", CUDA_GRAPH: "1"}})
BY_ITSELF = SessionSpec(providers=(TENSORRT, CUDA), lenient=True)
ON_TENSORRT = SessionSpec(providers=(TENSORRT, CUDA), provider_options={TENSORRT: {"trt_fp16_enable": "1"}})


def build(blueprint: Blueprint, export: Export, session: SessionSpec) -> OnnxRunner:
    """Exported, unless the cache has the file; then run once, with a profile, on the blueprint's example."""
    from perf.backends.onnx_files import export as exported
    from perf.backends.onnx_runners import make_runner

    file = exported(blueprint, export)
    kept = _engines(session, blueprint.cache / "tensorrt" / file.path.parent.name)
    return make_runner(file, kept, export.dtype, blueprint.example(0))


def _engines(session: SessionSpec, folder: Path) -> SessionSpec:
    """TensorRT builds its engines for minutes; they are kept by the file's content."""
    if TENSORRT not in session.providers or session.lenient:
        return session
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": str(folder.parent),
    }
    own = {**session.provider_options.get(TENSORRT, {}), **options}
    return replace(session, provider_options={**session.provider_options, TENSORRT: own})


def tensorrt(device: str) -> str | None:
    """The version that ONNX Runtime's provider is linked against: libnvinfer.so.10."""
    if find_spec("tensorrt") or find_library("nvinfer"):
        return None
    return "TensorRT is not installed: pip install 'tensorrt-cu13<11'"


def variant(
    name: str, export: Export = DYNAMO, session: SessionSpec = ON_CPU, standard_on: tuple[str, ...] = ()
) -> Variant:
    """Named `onnx-<provider>-<precision>[-<what differs>]`; whatever differs stands in `options`."""
    wanted = session.providers[-1:] if session.lenient else session.providers
    needs = [package("onnx", "onnx"), package("onnxscript", "onnxscript"), *map(execution_provider, wanted)]
    return Variant(
        name=name,
        build=partial(build, export=export, session=session),
        dtype=export.dtype,
        devices=(session.device,),
        exports=True,
        fixed_shape=not export.dynamic,
        missing=all_of(*needs, *([tensorrt] if TENSORRT in wanted else [])),
        standard_on=standard_on,
        options={
            "exporter": export.exporter,
            "opset": export.opset,
            "providers": session.providers,
            **chosen(export),
            **chosen(session),
        },
    )


VARIANTS = [
    variant("onnx-cpu-fp32", standard_on=("cpu",)),
    variant("onnx-cpu-fp32-fixed", FIXED),
    variant("onnx-cpu-fp32-legacy", LEGACY),
    variant("onnx-cpu-fp32-o0", session=replace(ON_CPU, level="disable")),
    variant("onnx-cpu-fp32-o1", session=replace(ON_CPU, level="basic")),
    variant("onnx-cpu-fp32-o2", session=replace(ON_CPU, level="extended")),
    variant("onnx-cpu-fp32-parallel", session=replace(ON_CPU, parallel=True, inter_threads=2)),
    variant("onnx-cpu-fp32-1thread", session=replace(ON_CPU, intra_threads=1)),
    variant("onnx-cpu-fp32-nospin", session=replace(ON_CPU, config={"session.intra_op.allow_spinning": "0"})),
    variant("onnx-cpu-fp32-nopattern", session=replace(ON_CPU, memory_pattern=False)),
    variant("onnx-cpu-fp32-profiled", session=replace(ON_CPU, profiling=True)),
    variant("onnx-cpu-fp32-iobinding", session=replace(ON_CPU, bound=True)),
    variant("onnx-cpu-fp16", HALF),
    variant("onnx-cpu-mixed", MIXED),
    variant("onnx-cuda-fp32", session=ON_CUDA, standard_on=("cuda",)),
    variant("onnx-cuda-fp32-fixed", FIXED, replace(ON_CUDA, config=NO_CPU_FALLBACK)),
    variant("onnx-cuda-fp32-legacy", LEGACY, ON_CUDA),
    variant("onnx-cuda-fp32-iobinding", session=BOUND),
    variant("onnx-cuda-fp32-cudagraph", session=GRAPH),
    # Sizes that a graph computes run on the CPU, and then nothing is captured (DeepLabV3, channels last: six copies to
    # and from the host): with fixed shapes there are none.
    variant("onnx-cuda-fp32-fixed-cudagraph", FIXED, GRAPH),
    # ONNX Runtime's own choice on CUDA is TF32; no one's fp32 is to be compared with it.
    replace(variant("onnx-cuda-tf32-cudagraph", DYNAMO, ROUNDED_GRAPH, ("cuda",)), lossy=True, products="tf32"),
    # All its own choices: providers in its order, what cannot be had passed over, host memory in and out, TF32.
    replace(variant("onnx-cuda-by_itself", DYNAMO, BY_ITSELF), lossy=True, products="tf32"),
    variant("onnx-cuda-fp16", HALF, ROUNDED, standard_on=("cuda",)),
    variant("onnx-cuda-fp16-cudagraph", HALF, ROUNDED_GRAPH),
    variant("onnx-cuda-fp16-nhwc", HALF, CHANNELS_LAST),
    variant("onnx-cuda-fp16-nhwc-cudagraph", HALF, CHANNELS_LAST_GRAPH),
    variant("onnx-cuda-fp16-nhwc-fixed-cudagraph", replace(HALF, dynamic=False), CHANNELS_LAST_GRAPH),
    variant("onnx-cuda-mixed", MIXED, ROUNDED),
    variant("onnx-cuda-mixed-cudagraph", MIXED, ROUNDED_GRAPH),
    variant("onnx-tensorrt-fp16", replace(HALF, dynamic=False), ON_TENSORRT),
]
