"""ONNX files of a core: exported, checked, and kept by content, so that one export serves all variants and runs."""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import onnx
import torch

from perf.backends import onnx_export, onnx_mixed, torch_export
from perf.backends.build_cache import built_once
from perf.backends.libraries import library_versions
from perf.backends.module_identity import digest
from perf.backends.onnx_export import Trace, trace, write
from perf.backends.onnx_mixed import raise_to_float32
from perf.backends.onnx_spec import Export
from perf.backends.torch_export import refuse_large
from perf.contract import Blueprint
from perf.errors import UnsupportedError

MODEL = "model.onnx"
REASON = "unsupported.txt"
"""In place of a model: why there can be none. Content and versions are in the folder's name, so it will not change."""

PROTOBUF_LIMIT_BYTES = 2**31 - 1
"""The largest message protobuf writes; beyond it, weights stand in a file beside the model."""


@dataclass(frozen=True)
class OnnxFile:
    """A model on disk. `opset` and `nodes` are read from the file (an exporter may not keep to the opset asked for);
    nodes of subgraphs count. `bytes_on_disk` includes weights in files beside it.
    """

    path: Path
    opset: int
    nodes: int
    bytes_on_disk: int

    @classmethod
    def read(cls, path: Path) -> OnnxFile:
        """The folder must hold nothing but this model."""
        model = onnx.load(str(path), load_external_data=False)
        opset = next(item.version for item in model.opset_import if item.domain in ("", "ai.onnx"))
        size = sum(file.stat().st_size for file in path.parent.iterdir())
        return cls(path, opset, sum(1 for _ in all_nodes(model.graph)), size)


def export(blueprint: Blueprint, spec: Export) -> OnnxFile:
    """The core's file at the blueprint's preset (and at its shape, where `spec` is not dynamic), exported unless the
    cache has it. It has passed `onnx.checker` with shape inference.

    Raises:
        UnsupportedError: the core is too large for a file, or the exporter cannot take it; its reason in one line.
        CoregateError: the cache cannot be written.
        onnx.checker.ValidationError, onnx.shape_inference.InferenceError: the exporter wrote a file that is no good.
    """
    return _export(blueprint, spec, blueprint.module(spec.dtype))


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The graph's nodes and those of the graphs inside them (`If`, `Loop`, `Scan`)."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from all_nodes(inner)


def check(path: Path) -> None:
    """By path, since beyond 2 GB a model cannot be checked in memory; types and shapes are inferred strictly."""
    onnx.checker.check_model(str(path), full_check=True)


def save(model: onnx.ModelProto, path: Path, external_data: bool) -> None:
    """As one file, or with its weights in `<path>.data`."""
    onnx.save(model, str(path), save_as_external_data=external_data, location=f"{path.name}.data")


def _export(blueprint: Blueprint, spec: Export, module: torch.nn.Module) -> OnnxFile:
    core = blueprint.core
    refuse_large(module)
    preset = next(name for name, held in core.presets.items() if held is blueprint.preset)
    given = trace(blueprint, module, spec)
    folder = blueprint.cache / "onnx" / f"{core.name}-{preset}-{_key(blueprint, spec, given)[:24]}"
    built_once(folder, lambda partial: _build(blueprint, spec, given, partial))
    if (folder / REASON).exists():
        raise UnsupportedError((folder / REASON).read_text(encoding="utf8"))
    return OnnxFile.read(folder / MODEL)


def _build(blueprint: Blueprint, spec: Export, given: Trace, folder: Path) -> None:
    try:
        if spec.keep_float32:
            source = _export(blueprint, replace(spec, keep_float32=()), given.module)
            _mix(source, folder / MODEL, spec)
        else:
            write(spec.exporter, given, folder / MODEL)
    except UnsupportedError as error:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / REASON).write_text(str(error), encoding="utf8")
    else:
        check(folder / MODEL)


def _mix(source: OnnxFile, path: Path, spec: Export) -> None:
    """By way of a file with all types inferred, since beyond 2 GB that cannot be done in memory."""
    inferred = path.with_suffix(".inferred")
    onnx.shape_inference.infer_shapes_path(str(source.path), str(inferred))
    model = onnx.load(str(inferred), load_external_data=False)
    onnx.load_external_data_for_model(model, str(source.path.parent))
    inferred.unlink()
    raise_to_float32(model, spec.keep_float32)
    save(model, path, spec.external_data or source.bytes_on_disk > PROTOBUF_LIMIT_BYTES)


def _key(blueprint: Blueprint, spec: Export, given: Trace) -> str:
    """A hash of all that decides what the file holds, this package's exporting code included."""
    example = given.example
    forms = [f"{name} {value.dtype} {tuple(value.shape)}" for name, value in example.inputs.items()]
    axes = [f"{name} {dim} {axis}" for name, dims in example.axes.items() for dim, axis in dims.items()]
    versions = [*(version(name) for name in ("torch", "onnx", "onnxscript")), *library_versions(given.module)]
    own = [inspect.getsource(module) for module in (sys.modules[__name__], onnx_export, onnx_mixed, torch_export)]
    facts = [asdict(spec), forms, axes, given.outputs, versions, own, digest(given.module, blueprint.preset.build)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
