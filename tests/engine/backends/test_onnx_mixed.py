"""Mixed precision on graphs written by hand: which values are rounded, and which are not."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from perf.backends.onnx_mixed import raise_to_float32

HALF = TensorProto.FLOAT16


def mixed(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], operators: set[str]) -> onnx.ModelProto:
    """Of a model x [4] → y [4], float16, checked."""
    value = [helper.make_tensor_value_info(name, HALF, [4]) for name in ("x", "y")]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    raise_to_float32(model, operators)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: onnx.ModelProto, x: list[float]) -> list[float]:
    """By ONNX's own evaluator: ONNX Runtime's CPU computes most of float16 in float32 and drops roundings between."""
    with np.errstate(over="ignore"):
        (y,) = ReferenceEvaluator(model).run(None, {"x": np.array(x, np.float16)})
    assert isinstance(y, np.ndarray)
    assert y.dtype == np.float16
    return [float(item) for item in y]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def node(op: str, inputs: str, output: str) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output])


def test_between_two_raised_nodes_nothing_is_rounded() -> None:
    """x² of 300 is 90,000, beyond float16's 65,504; its root is not."""
    nodes = [node("Mul", "x x", "square"), node("Sqrt", "square", "y")]
    model = mixed(nodes, {}, {"Mul", "Sqrt"})
    assert operators(model) == ["Cast", "Mul", "Cast", "Sqrt", "Cast"]
    assert run(model, [300.0, 2.0, 0.0, 1.0]) == [300.0, 2.0, 0.0, 1.0]
    assert run(mixed(nodes, {}, {"Sqrt"}), [300.0, 2.0, 0.0, 1.0])[0] == float("inf")


def test_a_value_is_cast_once_however_many_raised_nodes_read_it() -> None:
    nodes = [node("Exp", "x", "a"), node("Sqrt", "x", "b"), node("Sub", "a b", "y")]
    model = mixed(nodes, {}, {"Exp", "Sqrt", "Sub"})
    assert operators(model) == ["Cast", "Exp", "Cast", "Sqrt", "Cast", "Sub", "Cast"]
    assert run(model, [0.0, 1.0, 4.0, 0.0]) == [1.0, 1.71875, 52.59375, 1.0]


def test_weights_and_neighbours_stay_in_float16() -> None:
    nodes = [node("Add", "x w", "sum"), node("Abs", "sum", "size"), node("Mul", "size w", "y")]
    model = mixed(nodes, {"w": np.full(4, 2.0, np.float16)}, {"Abs"})
    assert operators(model) == ["Add", "Cast", "Abs", "Cast", "Mul"]
    assert [item.data_type for item in model.graph.initializer] == [HALF]
    assert run(model, [-5.0, 0.0, 1.0, -2.0]) == [6.0, 4.0, 6.0, 0.0]


def test_an_operator_that_is_not_there_changes_nothing() -> None:
    assert operators(mixed([node("Abs", "x", "y")], {}, {"Softmax"})) == ["Abs"]
