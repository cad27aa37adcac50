"""Sessions of ONNX Runtime, on the providers asked for or none, and what each optimisation level makes of a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import onnxruntime
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelError

from perf.backends.deployed import Loading
from perf.backends.onnx_files import OnnxFile, all_nodes
from perf.backends.onnx_spec import CUDA_GRAPH, LEVELS, NO_CPU_FALLBACK, TENSORRT, SessionSpec
from perf.errors import UnsupportedError

LEVELS_UP_TO_BYTES = 256 * 2**20
"""Of larger files the levels are not counted: each costs a session, and a file as large again for as long."""

NODES_AT = "nodes_at_"
PORTABLE_LEVEL = "extended"
"""The highest level whose graph does not depend on the processor: `all` lays tensors out in its vector width."""

_LEFT_TO_THE_CPU = "fallback to CPU EP has been explicitly disabled"
_NO_GRAPH_CAPTURE = "cannot use the graph capture feature"

Levels = Mapping[str, Mapping[str, int]]
"""By level, how many nodes of each operator ONNX Runtime would run."""


def session_options(spec: SessionSpec) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[spec.level])
    options.intra_op_num_threads = spec.intra_threads or torch.get_num_threads()
    options.inter_op_num_threads = spec.inter_threads
    mode = onnxruntime.ExecutionMode
    options.execution_mode = mode.ORT_PARALLEL if spec.parallel else mode.ORT_SEQUENTIAL
    options.enable_mem_pattern = spec.memory_pattern
    options.log_severity_level = spec.log_severity
    for key, value in spec.config.items():
        options.add_session_config_entry(key, value)
    return options


def open_session(
    path: Path, spec: SessionSpec, options: onnxruntime.SessionOptions | None = None
) -> onnxruntime.InferenceSession:
    """A session on the providers asked for, or none; of a lenient `spec` on one of them. `options` are those of `spec`
    unless given.

    Raises:
        RuntimeError: a provider was not obtained: ONNX Runtime would have run on another without a word.
        UnsupportedError: no provider has a kernel for one of the model's operators, it cannot be a CUDA graph, or
            some nodes would run on the CPU where that is forbidden.
    """
    _load_libraries(spec)
    providers = [(name, dict(spec.provider_options.get(name, {}))) for name in spec.providers]
    try:
        session = onnxruntime.InferenceSession(
            str(path),
            options or session_options(spec),
            providers=providers,
            disabled_optimizers=spec.disabled_optimizers,
            enable_fallback=int(spec.lenient),
        )
    except NoKernelError as error:
        raise UnsupportedError(_said(error)) from error
    except Exception as error:
        if _NO_GRAPH_CAPTURE in str(error):
            raise UnsupportedError(_said(error)) from error
        if _LEFT_TO_THE_CPU in str(error):
            open_session(path, _unconditional(spec))  # else it is a provider that was not obtained at all
            raise UnsupportedError(
                "ONNX Runtime leaves nodes of this graph to the CPU, which this variant forbids: "
                "pytest -m placement names them, with a variant that allows it"
            ) from error
        raise
    _refuse_fallback(spec, session.get_providers())
    return session


def _said(error: Exception) -> str:
    return f"ONNX Runtime: {str(error).splitlines()[0]}"[:300]


def _load_libraries(spec: SessionSpec) -> None:
    """CUDA's from torch's wheels, TensorRT's from its own: neither is on the loader's path."""
    if spec.device == "cuda":
        onnxruntime.preload_dlls()
    if TENSORRT in spec.providers and find_spec("tensorrt"):
        import_module("tensorrt")


def _refuse_fallback(spec: SessionSpec, obtained: list[str]) -> None:
    lost = [name for name in spec.providers if name not in obtained]
    if lost and not (spec.lenient and len(lost) < len(spec.providers)):
        raise RuntimeError(
            f"asked for {', '.join(lost)}, ONNX Runtime fell back to {', '.join(obtained)}: "
            "see its log for the library that did not load, or run a variant of another provider"
        )


def count_levels(file: OnnxFile, spec: SessionSpec) -> Levels:
    """Of the graph at each level, as ONNX Runtime saves it; both branches of an `If` count. Empty for a file of more
    than `LEVELS_UP_TO_BYTES`, and with TensorRT, whose engines cannot be saved as a graph.
    """
    if TENSORRT in spec.providers or file.bytes_on_disk > LEVELS_UP_TO_BYTES:
        return {}
    with TemporaryDirectory(prefix="ort-levels-") as folder:
        kept = _unconditional(spec)
        return {level: _operators(file, replace(kept, level=level), Path(folder) / f"{level}.onnx") for level in LEVELS}


def _unconditional(spec: SessionSpec) -> SessionSpec:
    """Without the two demands for which a session of a lower level may be refused."""
    options = {
        name: {key: value for key, value in chosen.items() if key != CUDA_GRAPH}
        for name, chosen in spec.provider_options.items()
    }
    config = {key: value for key, value in spec.config.items() if key not in NO_CPU_FALLBACK}
    return replace(spec, provider_options=options, config=config)


def _operators(file: OnnxFile, spec: SessionSpec, optimised: Path) -> Counter[str]:
    save_optimised(file, spec, optimised)
    return Counter(node.op_type for node in all_nodes(onnx.load(str(optimised), load_external_data=False).graph))


def save_optimised(file: OnnxFile, spec: SessionSpec, path: Path) -> Path:
    """Write to `path` the graph that a session of `spec` would run; at level `all` it is this processor's alone."""
    options = session_options(spec)
    options.optimized_model_filepath = str(path)
    if file.bytes_on_disk > LEVELS_UP_TO_BYTES:
        name = f"{path.name}.data"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", name)
    open_session(file.path, spec, options)
    return path


def loading(path: Path, spec: SessionSpec) -> Loading:
    """A session on `path` in a process that has no torch; with CUDA, whose libraries lie in torch's wheels, they are
    loaded before the clock of loading starts."""
    providers = [(name, dict(spec.provider_options.get(name, {}))) for name in spec.providers]
    return Loading(
        "import onnxruntime; onnxruntime.preload_dlls()" if spec.device == "cuda" else "import onnxruntime",
        "options = onnxruntime.SessionOptions()\n"
        "options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, sys.argv[2])\n"
        "onnxruntime.InferenceSession(sys.argv[1], options, providers=json.loads(sys.argv[3]))",
        (str(path), LEVELS[spec.level], json.dumps(providers)),
    )


def level_counters(levels: Levels) -> dict[str, int]:
    """`nodes_at_basic` and so on; `nodes_at_extended:FusedGemm` tells which operators fusion made and which it left."""
    fused = levels.get(PORTABLE_LEVEL, {})
    return {
        **{f"{NODES_AT}{level}": sum(operators.values()) for level, operators in levels.items()},
        **{f"{NODES_AT}{PORTABLE_LEVEL}:{name}": count for name, count in sorted(fused.items())},
    }
