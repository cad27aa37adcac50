"""Mixed precision in an ONNX file: some operators computed in float32 between float16 neighbours."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx
from onnx import TensorProto, helper

_SUFFIX = "_in_float32"


def raise_to_float32(model: onnx.ModelProto, operators: Collection[str]) -> None:
    """Casts around each node of the `operators` (types, of the main graph) whose float16 inputs and outputs they then
    have in float32; between two such nodes nothing is rounded. The values' types must have been inferred.

    Not left to `onnxruntime.transformers.float16`, which works on a float32 file, so without the upcasts that the core
    itself asks for in float16, and whose files often are no valid ONNX (seen with onnxruntime 1.31).
    """
    graph = model.graph
    half = {name for name, kind in _types(graph) if kind == TensorProto.FLOAT16}
    raised: set[str] = set()
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type in operators:
            fresh = dict.fromkeys(name for name in node.input if name in half and name not in raised)
            nodes += [_cast(name, name + _SUFFIX, TensorProto.FLOAT) for name in fresh]
            lowered = [name for name in node.output if name in half]
            raised |= {*fresh, *lowered}
            node.input[:] = [name + _SUFFIX if name in half else name for name in node.input]
            node.output[:] = [name + _SUFFIX if name in half else name for name in node.output]
            nodes += [node, *(_cast(name + _SUFFIX, name, TensorProto.FLOAT16) for name in lowered)]
        else:
            nodes.append(node)
    del graph.value_info[:], graph.node[:]
    graph.node.extend(nodes)


def _types(graph: onnx.GraphProto) -> Iterator[tuple[str, int]]:
    for value in (*graph.input, *graph.value_info, *graph.output):
        yield value.name, value.type.tensor_type.elem_type
    yield from ((item.name, item.data_type) for item in graph.initializer)


def _cast(source: str, target: str, kind: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"{source}_to_{target}", to=kind)
