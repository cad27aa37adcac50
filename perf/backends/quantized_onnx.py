"""ONNX Runtime's quantised files of a core: made from its float32 file, kept by content, and run."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import onnxruntime
import torch
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from perf.backends import quantized_spec
from perf.backends.build_cache import built_once
from perf.backends.onnx_files import MODEL, PROTOBUF_LIMIT_BYTES, OnnxFile, export
from perf.backends.onnx_profile import Node
from perf.backends.onnx_runners import OnnxRunner
from perf.backends.onnx_spec import Export, SessionSpec
from perf.backends.quantized_spec import CALIBRATION_SEEDS, Recipe, describe_int8, sensitive
from perf.contract import Blueprint, Inputs
from perf.errors import UnsupportedError
from perf.runners import to_device

QUANTISED = ("MatMul", "Gemm", "Conv")
"""What has weights to shrink. Quantising all that ONNX Runtime can breaks on several transformers."""

ABSORBED = ("Relu", "Clip")
"""Clipping that a quantised output does by itself: left out, a layer spends half of its 8 bits on values that the
activation behind it throws away."""

_PRODUCT = re.compile("MatMul|Gemm|Conv")
_LEFT_OUT = "coregate.left_in_float"


@dataclass(frozen=True)
class QuantizedFile:
    """A quantised model on disk, and the nodes of its float32 model that were left in float by rule."""

    file: OnnxFile
    left_in_float: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> QuantizedFile:
        metadata = onnx.load(str(path), load_external_data=False).metadata_props
        return cls(OnnxFile.read(path), tuple(json.loads({item.key: item.value for item in metadata}[_LEFT_OUT])))


class QuantizedRunner(OnnxRunner):
    """As `OnnxRunner`; counts how much of the arithmetic really runs on integers, and notes what it depends on.

    Raises:
        RuntimeError: a provider was not obtained; ONNX Runtime would have run on another without a word.
    """

    def __init__(self, quantized: QuantizedFile, spec: SessionSpec, recipe: Recipe, example: Inputs) -> None:
        self._left_in_float = quantized.left_in_float
        self._static = recipe.static
        super().__init__(quantized.file, spec, "float32", example)

    def counters(self) -> Mapping[str, int]:
        return {**super().counters(), "quantized_percent": quantized_percent(self.nodes)}

    def notes(self) -> Mapping[str, str]:
        seeds = f"seeds {CALIBRATION_SEEDS.start} to {CALIBRATION_SEEDS.stop - 1}" if self._static else "none: dynamic"
        return {
            **super().notes(),
            "left_in_float": ", ".join(self._left_in_float) or "none",
            "calibration": seeds,
            "int8_instructions": describe_int8(torch.cpu.get_capabilities()),
        }


def quantized_percent(ran: Iterable[Node]) -> int:
    """Of the matrix products and convolutions that ran, those on integers: 0 to 100, rounded down."""
    products = [node.quantized for node in ran if _PRODUCT.search(node.op)]
    return 100 * sum(products) // max(1, len(products))


def quantize(blueprint: Blueprint, recipe: Recipe) -> QuantizedFile:
    """The core's file at the blueprint's preset, quantised by `recipe` unless the cache has it.

    Raises:
        UnsupportedError: it cannot be exported, has nothing to quantise, or is too large for ONNX Runtime's quantiser.
        CoregateError: the cache cannot be written.
    """
    source = export(blueprint, Export())
    if source.bytes_on_disk > PROTOBUF_LIMIT_BYTES:
        raise UnsupportedError(f"{source.bytes_on_disk / 1e9:.1f} GB: ONNX Runtime quantises files of up to 2 GB")
    folder = blueprint.cache / "quantized" / f"{source.path.parent.name}-{_key(blueprint, recipe)[:16]}"
    built_once(folder, lambda partial: _build(blueprint, source, recipe, partial / MODEL))
    return QuantizedFile.read(folder / MODEL)


def _key(blueprint: Blueprint, recipe: Recipe) -> str:
    """A hash of what the float32 file's own does not cover: that has the weights, the inputs' code and the axes."""
    own = [Path(file).read_text(encoding="utf8") for file in (__file__, str(quantized_spec.__file__))]
    shape = blueprint.preset.shapes[0]
    facts = [asdict(recipe), dict(shape.dims), onnxruntime.__version__, onnx.__version__, own]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _build(blueprint: Blueprint, source: OnnxFile, recipe: Recipe, target: Path) -> None:
    with TemporaryDirectory(prefix="coregate-quantise-") as scratch:
        prepared, quantized = Path(scratch) / "prepared.onnx", Path(scratch) / "quantized.onnx"
        model = _prepare(source.path.resolve(), prepared)
        layers = quantisable(model)
        if not layers:
            raise UnsupportedError("no MatMul, Gemm or Conv with weights in this core: nothing to quantise")
        left = sensitive(layers)
        names = [item.name for item in model.graph.input]
        chosen = [*(name for name in layers if name not in left), *_named(model, ABSORBED)]
        if recipe.static:
            _static(prepared, quantized, recipe, chosen, _Reader(_calibration(blueprint, names)))
        else:
            _dynamic(prepared, quantized, recipe, chosen)
        result = onnx.load(str(quantized))
        onnx.helper.set_model_props(result, {_LEFT_OUT: json.dumps(left)})
        onnx.save(result, str(target))


def _prepare(source: Path, prepared: Path) -> onnx.ModelProto:
    """ONNX Runtime's preprocessing (it folds batch norms into convolutions), and every node named. The quantiser
    transposes a Gemm's weights where they stand: so no shapes are noted of weights, and no other node shares a Gemm's.
    """
    with chdir(prepared.parent):  # on failure it leaves files in the current folder
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    model = onnx.load(str(prepared))
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{index}"
    weights = {item.name: item for item in model.graph.initializer}
    noted = [item for item in model.graph.value_info if item.name not in weights]
    del model.graph.value_info[:]
    model.graph.value_info.extend(noted)
    _untie(model.graph, weights)
    onnx.save(model, str(prepared))
    return model


def _untie(graph: onnx.GraphProto, weights: Mapping[str, onnx.TensorProto]) -> None:
    """A head that shares its matrix with the embedding gets its own: quantised, it could not be the embedding's."""
    uses = Counter(name for node in graph.node for name in node.input)
    for node in graph.node:
        if node.op_type == "Gemm" and node.input[1] in weights and uses[node.input[1]] > 1:
            own = graph.initializer.add()
            own.CopyFrom(weights[node.input[1]])
            own.name = node.input[1] = f"{node.name}.weight"


def quantisable(model: onnx.ModelProto) -> list[str]:
    """Names of the layers with weights, in the order in which they run. Products with a stack of matrices are none:
    ONNX Runtime has no kernel for them with a scale a channel.
    """
    axes = {item.name: len(item.dims) for item in model.graph.initializer}
    return [
        node.name
        for node in model.graph.node
        if node.op_type in QUANTISED
        and node.input[1] in axes
        and (node.op_type != "MatMul" or axes[node.input[1]] == 2)
    ]


def _named(model: onnx.ModelProto, operators: tuple[str, ...]) -> list[str]:
    return [node.name for node in model.graph.node if node.op_type in operators]


def _calibration(blueprint: Blueprint, names: list[str]) -> Iterator[dict[str, Any]]:
    """The core's own inputs at its standard shape, drawn from seeds that no test has."""
    preset = blueprint.preset
    for seed in CALIBRATION_SEEDS:
        drawn = to_device(preset.inputs(preset.shapes[0], seed), "float32", "cpu")
        yield {name: drawn[name].numpy() for name in names}


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, batches: Iterator[dict[str, Any]]) -> None:
        self._batches = batches

    def get_next(self) -> dict[str, Any] | None:
        return next(self._batches, None)


def _static(prepared: Path, target: Path, recipe: Recipe, chosen: list[str], calibration: _Reader) -> None:
    quantization.quantize_static(
        str(prepared),
        str(target),
        calibration,
        quant_format=quantization.QuantFormat[recipe.format],
        op_types_to_quantize=[*QUANTISED, *ABSORBED],
        per_channel=recipe.per_channel,
        reduce_range=recipe.reduce_range,
        activation_type=quantization.QuantType[recipe.activation],
        weight_type=quantization.QuantType[recipe.weight],
        nodes_to_quantize=chosen,
        calibrate_method=quantization.CalibrationMethod[recipe.calibrator],
    )


def _dynamic(prepared: Path, target: Path, recipe: Recipe, chosen: list[str]) -> None:
    quantization.quantize_dynamic(
        str(prepared),
        str(target),
        op_types_to_quantize=list(QUANTISED),
        per_channel=recipe.per_channel,
        reduce_range=recipe.reduce_range,
        weight_type=quantization.QuantType[recipe.weight],
        nodes_to_quantize=[*chosen, *(f"{name}_MatMul" for name in chosen)],  # what a Gemm is called once it is split
    )
