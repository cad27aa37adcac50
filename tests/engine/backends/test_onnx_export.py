"""What the exporters write: read back from the file, run by ONNX Runtime, compared with torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from perf.backends.onnx_files import OnnxFile, export
from perf.backends.onnx_spec import Export
from perf.contract import Axis, Inputs, Shape
from perf.errors import UnsupportedError
from tests.engine.onnx_toys import SHAPES, Mlp, blueprint, rows, seeded

QUICK = Export("legacy", 17)
MLP_BYTES = 4 * (8 * 16 + 16 + 16 * 4 + 4)
"""float32 weights of `Mlp`."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def dynamo(shared: Path) -> OnnxFile:
    return export(blueprint(shared), Export())


def run(file: OnnxFile, inputs: Inputs) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(file.path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {name: value.numpy() for name, value in inputs.items()})
    return np.asarray(found)


def operators(file: OnnxFile) -> list[str]:
    return [node.op_type for node in onnx.load(str(file.path)).graph.node]


def test_the_graph_is_the_modules(dynamo: OnnxFile) -> None:
    assert operators(dynamo) == ["Gemm", "Relu", "Gemm"]
    assert (dynamo.opset, dynamo.nodes) == (20, 3)
    assert MLP_BYTES < dynamo.bytes_on_disk == dynamo.path.stat().st_size < MLP_BYTES + 10_000


def test_the_opset_is_the_files_and_not_the_one_asked_for(shared: Path) -> None:
    """The dynamo exporter starts at 18, and its converter keeps the model where it cannot go lower."""
    kept = blueprint(shared, Mean, dynamic={})
    assert export(kept, Export(opset=17)).opset == 18
    assert export(kept, QUICK).opset == 17


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def test_one_dynamic_file_serves_every_batch_one_too(shared: Path, dynamo: OnnxFile) -> None:
    module = seeded(Mlp)
    for file in (dynamo, export(blueprint(shared), QUICK)):
        for batch in (1, 3, 7):
            inputs = rows(Shape("any", {"batch": batch}), seed=batch)
            np.testing.assert_allclose(run(file, inputs), module(inputs["x"]).numpy(), rtol=1e-5, atol=1e-6)


def test_a_fixed_file_takes_its_own_shape_alone(shared: Path) -> None:
    files = [export(blueprint(shared, asked=asked), replace(QUICK, dynamic=False)) for asked in (0, 1)]
    assert [run(file, rows(shape, 0)).shape for file, shape in zip(files, SHAPES, strict=True)] == [(3, 4), (5, 4)]
    with pytest.raises(Exception, match="invalid dimensions"):
        run(files[0], rows(SHAPES[1], 0))


def test_a_shape_of_one_is_not_the_example_where_another_will_do(shared: Path) -> None:
    shapes = (Shape("b1", {"batch": 1}), Shape("b3", {"batch": 3}))
    file = export(blueprint(shared, shapes=shapes), Export())
    assert [run(file, rows(shape, 0)).shape for shape in shapes] == [(1, 4), (3, 4)]


def test_an_axis_that_is_one_at_every_shape_stays_closed(shared: Path) -> None:
    file = export(blueprint(shared, shapes=(Shape("b1", {"batch": 1}),)), QUICK)
    (x,) = onnx.load(str(file.path)).graph.input
    assert [dim.dim_value for dim in x.type.tensor_type.shape.dim] == [1, 8]


def test_shapes_that_are_never_two_at_once_are_a_skip(shared: Path) -> None:
    shapes = (Shape("wide", {"batch": 1, "w": 6}), Shape("tall", {"batch": 4, "w": 1}))
    dynamic = {"x": {0: Axis("batch"), 1: Axis("w")}}
    plan = blueprint(shared, inputs=sized, shapes=shapes, dynamic=dynamic)
    with pytest.raises(UnsupportedError, match=r"two or more along each of x\[0\], x\[1\] at once: add one"):
        export(plan, Export())


def sized(shape: Shape, seed: int) -> Inputs:
    return {"x": torch.randn(shape["batch"], shape["w"])}


class ThreeRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(3, 8) * 2.0


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2.0 if x.sum() > 0 else x - 1.0


class Norm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.rms_norm(x, (8,))


@pytest.mark.parametrize(
    ("kind", "spec", "reason"),
    [
        (Branch, Export(), r"^dynamo exporter: GuardOnDataDependentSymNode: Could not guard on data-dependent .*$"),
        (ThreeRows, Export(), r"^dynamo exporter: .*fixed x\[0\], which Core.dynamic says to leave open$"),
        (
            Norm,
            QUICK,
            r"^legacy exporter: UnsupportedOperatorError: .*'aten::rms_norm' to ONNX opset.*$",
        ),
    ],
)
def test_what_cannot_be_exported_is_a_skip_with_the_reason(
    shared: Path, kind: type[nn.Module], spec: Export, reason: str
) -> None:
    for _ in range(2):  # the second time from the cache
        with pytest.raises(UnsupportedError, match=reason):
            export(blueprint(shared, kind), spec)


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ZeroDivisionError("of the core's own")


@pytest.mark.parametrize("spec", [Export(), QUICK])
def test_a_core_that_fails_by_itself_is_no_skip(shared: Path, spec: Export) -> None:
    with pytest.raises(ZeroDivisionError, match="of the core's own"):
        export(blueprint(shared, Broken), spec)


class Difference(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return left - right


def pair(shape: Shape, seed: int) -> Inputs:
    """In the reverse of forward's order."""
    return {"right": torch.full((3, 2), 5.0), "left": torch.full((3, 2), 7.0)}


@pytest.mark.parametrize("spec", [Export(), QUICK])
def test_inputs_keep_their_names_whatever_their_order(shared: Path, spec: Export) -> None:
    file = export(blueprint(shared, Difference, inputs=pair, dynamic={}), spec)
    assert run(file, pair(SHAPES[0], 0)).tolist() == [[2.0, 2.0]] * 3


@pytest.mark.parametrize(
    ("spec", "bytes_a_weight"),
    [
        (Export(external_data=True), 4),
        (Export(external_data=True, dtype="float16", keep_float32=("Softmax",)), 2),
    ],
)
def test_weights_beside_the_model_are_checked_run_and_counted(shared: Path, spec: Export, bytes_a_weight: int) -> None:
    file = export(blueprint(shared, Wide), spec)
    beside = file.path.with_name("model.onnx.data")
    assert sorted(file.path.parent.iterdir()) == [file.path, beside]
    assert bytes_a_weight * 8 * 4096 <= beside.stat().st_size < bytes_a_weight * 9 * 4096 + 4096
    assert file.bytes_on_disk == beside.stat().st_size + file.path.stat().st_size
    assert file.path.stat().st_size < 8 * 4096
    inputs = {"x": rows(SHAPES[0], 0)["x"].to(getattr(torch, spec.dtype))}
    assert run(file, inputs).shape == (3, 4096)


class Wide(nn.Module):
    """More weights than the exporter leaves in the model when it puts them beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Linear(8, 4096)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.only(x)
        return y


def test_a_mixed_file_keeps_what_is_named_in_float32(shared: Path) -> None:
    half = export(blueprint(shared, Soft), replace(QUICK, dtype="float16", keep_float32=("Softmax",)))
    model = onnx.shape_inference.infer_shapes(onnx.load(str(half.path)))
    types = {item.name: item.type.tensor_type.elem_type for item in (*model.graph.value_info, *model.graph.output)}
    by_operator = {node.op_type: types[node.output[0]] for node in model.graph.node if node.op_type != "Cast"}
    assert by_operator == {"Gemm": onnx.TensorProto.FLOAT16, "Softmax": onnx.TensorProto.FLOAT}
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16


class Soft(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x).softmax(-1))
        return y


def test_a_float16_file_is_float16_throughout(shared: Path) -> None:
    model = onnx.load(str(export(blueprint(shared), replace(QUICK, dtype="float16")).path))
    assert {item.data_type for item in model.graph.initializer} == {onnx.TensorProto.FLOAT16}


def test_no_path_of_this_machine_is_in_the_file(dynamo: OnnxFile) -> None:
    assert b".py" not in dynamo.path.read_bytes()
