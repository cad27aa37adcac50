"""ONNX: exported by `torch.onnx.export(dynamo=True)`, run by ONNX Runtime. The opset is read from the file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from perf.contract import Axis, Blueprint, Inputs, Outputs, Variant
from perf.needs import all_of, execution_provider, package
from perf.runners import to_device

OPSET = 20


class OnnxRunner:
    """An ONNX Runtime session over CPU memory: numpy in, numpy out; conversion to and from torch is not timed.

    Raises:
        RuntimeError: the session did not get the provider it was asked for (a silent fall-back).
    """

    def __init__(self, path: Path, provider: str, dtype: str) -> None:
        import onnx
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(path), options, providers=[provider])
        self._names = [item.name for item in self._session.get_inputs()]
        self._dtype = dtype
        obtained = self._session.get_providers()
        if provider not in obtained:
            raise RuntimeError(f"asked for {provider}, ONNX Runtime fell back to {', '.join(obtained)}")
        model = onnx.load(str(path), load_external_data=False)
        self._counters = {
            "opset": next(item.version for item in model.opset_import if item.domain in ("", "ai.onnx")),
            "onnx_nodes": len(model.graph.node),
            "bytes_on_disk": sum(file.stat().st_size for file in path.parent.iterdir()),
        }
        self._notes = {"providers": ",".join(obtained), "onnxruntime": onnxruntime.__version__}

    def prepare(self, inputs: Inputs) -> dict[str, Any]:
        cast = to_device(inputs, self._dtype, "cpu")
        return {name: cast[name].numpy() for name in self._names}

    def run(self, prepared: dict[str, Any]) -> Any:
        return self._session.run(None, prepared)

    def outputs(self, raw: Any) -> Outputs:
        return tuple(torch.from_numpy(item) for item in raw)

    def counters(self) -> Mapping[str, int]:
        return self._counters

    def notes(self) -> Mapping[str, str]:
        return self._notes

    def close(self) -> None:
        del self._session


def build(blueprint: Blueprint, provider: str, dtype: str) -> OnnxRunner:
    """Exports at the shape's own example, dynamic where the core says so, into a folder of its own below the cache."""
    folder = blueprint.cache / "onnx" / f"{blueprint.core.name}-{blueprint.shape.name}-{dtype}"
    path = export(blueprint, dtype, folder / "model.onnx")
    return OnnxRunner(path, provider, dtype)


def export(blueprint: Blueprint, dtype: str, path: Path) -> Path:
    """Writes beside `path` and renames, so that a killed export leaves no half model there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs = to_device(blueprint.example(0), dtype, "cpu")
    program = torch.onnx.export(
        blueprint.module(dtype).to("cpu"),
        kwargs=inputs,
        dynamo=True,
        opset_version=OPSET,
        input_names=list(inputs),
        output_names=list(blueprint.core.outputs),
        dynamic_shapes=_dynamic_shapes(inputs, blueprint.core.dynamic),
        verbose=False,
    )
    assert program is not None
    partial_path = path.with_suffix(".partial.onnx")
    program.save(str(partial_path))
    partial_path.replace(path)
    return path


def _dynamic_shapes(inputs: Inputs, dynamic: Mapping[str, Mapping[int, Axis]]) -> dict[str, dict[int, Any]]:
    dims: dict[str, Any] = {}

    def dim(axis: Axis) -> Any:
        base = f"{axis.symbol}_{axis.multiple}" if axis.multiple > 1 else axis.symbol
        dims.setdefault(base, torch.export.Dim(base, min=axis.min // axis.multiple, max=axis.max // axis.multiple))
        return dims[base] * axis.multiple if axis.multiple > 1 else dims[base]

    return {name: {index: dim(axis) for index, axis in dynamic.get(name, {}).items()} for name in inputs}


VARIANTS = [
    Variant(
        name="onnx-cpu-fp32",
        build=partial(build, provider="CPUExecutionProvider", dtype="float32"),
        devices=("cpu",),
        exports=True,
        missing=all_of(
            package("onnx", "onnx"), package("onnxscript", "onnxscript"), execution_provider("CPUExecutionProvider")
        ),
        options={"exporter": "dynamo", "opset": OPSET, "provider": "CPUExecutionProvider"},
    )
]
