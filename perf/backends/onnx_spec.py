"""How a core becomes an ONNX file and how that is run, as data; needs neither onnx nor ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"

LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
"""Names of `onnxruntime.GraphOptimizationLevel`, from none to all of ONNX Runtime's rewriting of the graph."""

CUDA_GRAPH = "enable_cuda_graph"
"""CUDA's option: record a run and replay it. Needs fixed memory, so a bound session."""

NO_CPU_FALLBACK = {"session.disable_cpu_ep_fallback": "1"}
"""A node on the CPU is an error. For graphs without shape arithmetic, which CUDA leaves to the CPU on purpose."""


@dataclass(frozen=True)
class Export:
    """`exporter` is a name in `perf.backends.onnx_export.EXPORTERS`; the module is exported in `dtype`. `keep_float32`
    are operator types that a float16 file computes in float32.
    """

    exporter: str = "dynamo"
    opset: int = 20
    dtype: str = "float32"
    dynamic: bool = True
    external_data: bool = False
    keep_float32: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionSpec:
    """ONNX Runtime's session options. `providers` in order of preference: what the first cannot run goes to the next,
    the rest to the CPU. `intra_threads` 0 is as many as torch has, so that a ratio compares programs and not numbers of
    threads; `inter_threads` counts where the execution is `parallel`. `bound` runs on memory tied to inputs and outputs
    (IO binding), on the first provider's device. With `profiling` every call is profiled, which is what to weigh where
    a server keeps profiles. `lenient` is how ONNX Runtime is by itself: a provider that cannot be had is passed over.
    """

    providers: tuple[str, ...] = (CPU,)
    provider_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    level: str = "all"
    intra_threads: int = 0
    inter_threads: int = 0
    parallel: bool = False
    memory_pattern: bool = True
    config: Mapping[str, str] = field(default_factory=dict)
    disabled_optimizers: tuple[str, ...] = ()
    log_severity: int = 3
    bound: bool = False
    profiling: bool = False
    lenient: bool = False

    @property
    def device(self) -> str:
        return "cpu" if self.providers[0] == CPU else "cuda"


def chosen(spec: Export | SessionSpec) -> dict[str, Any]:
    """The settings in which `spec` departs from the defaults."""
    usual = asdict(type(spec)())
    return {name: value for name, value in asdict(spec).items() if value != usual[name]}
