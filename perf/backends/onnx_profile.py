"""Which node ran where, from ONNX Runtime's own profile of a run: the one source that holds what really ran.

Compared on ONNX Runtime 1.31: `get_providers()` lists providers that were registered, whether or not they got a node;
`get_provider_graph_assignment_info()` lists nodes as they were dealt out, before operators are fused and copies are put
between providers; a saved optimised graph has those, but names no provider, and cannot be saved of one that compiles.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "nodes_on_"
_NODE = "_kernel_time"
_COMPILED = re.compile(r"(?<=^TRTKernel)_.*")
_COPIES = frozenset({"MemcpyFromHost", "MemcpyToHost"})
_QUANTIZED = re.compile(r"Q[A-Z]\w*|\w+Integer(ToFloat)?|DynamicQuantize(MatMul|LSTM)|MatMulNBits|MatMulBnb4")


@dataclass(frozen=True, order=True)
class Node:
    """A node that ran. `provider` is short: CPU, CUDA, Tensorrt. `index` is the node's number in its (sub)graph."""

    provider: str
    op: str
    name: str
    index: str

    @property
    def copies(self) -> bool:
        """Moves a tensor between devices and does nothing else."""
        return self.op in _COPIES

    @property
    def quantized(self) -> bool:
        """Computes on integers or on packed weights; `QuantizeLinear` and `DequantizeLinear` only convert."""
        return _QUANTIZED.fullmatch(self.op) is not None


def short(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider")


def read_profile(path: Path) -> tuple[Node, ...]:
    """The distinct nodes of a profile file, however often each ran.

    Raises:
        RuntimeError: no node ran while the profile was taken.
    """
    found = nodes(json.loads(path.read_text(encoding="utf8")))
    if not found:
        raise RuntimeError(f"ONNX Runtime's profile {path} tells of no node")
    return found


def nodes(events: Iterable[Mapping[str, Any]]) -> tuple[Node, ...]:
    """From a profile's events, as `json.load` gives them."""
    ran = (event for event in events if event.get("cat") == "Node" and event["name"].endswith(_NODE))
    return tuple(
        sorted(
            {
                Node(
                    provider=short(event["args"]["provider"]),
                    op=_COMPILED.sub("", event["args"]["op_name"]),
                    name=event["name"].removesuffix(_NODE),
                    index=str(event["args"]["node_index"]),
                )
                for event in ran
            }
        )
    )


def node_counters(ran: Iterable[Node]) -> dict[str, int]:
    """Exact, named so that a change names its place: `nodes_on_CPU:FusedGemm` says which operator left and came."""
    ran = tuple(ran)
    placed = Counter(f"{PREFIX}{node.provider}" for node in ran)
    by_operator = Counter(f"{PREFIX}{node.provider}:{node.op}" for node in ran)
    return {
        "ort_nodes": len(ran),
        "memcpy_nodes": sum(node.copies for node in ran),
        "quantized_nodes": sum(node.quantized for node in ran),
        **dict(sorted(placed.items())),
        **dict(sorted(by_operator.items())),
    }
