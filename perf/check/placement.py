"""Where ONNX Runtime runs each node of a variant, and how many nodes each optimisation level makes of the file's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from perf.backends.onnx_profile import Node, short

if TYPE_CHECKING:
    from perf.backends.onnx_runners import OnnxRunner


@dataclass(frozen=True)
class Placement:
    """`providers` as they were asked for, short names, the preferred one first. `nodes` ran in the runner's first call.
    `levels` is the number of nodes at each optimisation level, empty where that was not counted. `counted` are the
    runner's counters.
    """

    providers: tuple[str, ...]
    nodes: tuple[Node, ...]
    levels: Mapping[str, int]
    counted: Mapping[str, int]

    @property
    def strays(self) -> tuple[Node, ...]:
        """Nodes that did not run on the preferred provider, and copies between devices."""
        return tuple(node for node in self.nodes if node.copies or node.provider != self.providers[0])

    @property
    def quantized_share(self) -> float:
        """Of the nodes that ran, those that compute on integers or on packed weights: 0 to 1."""
        return sum(node.quantized for node in self.nodes) / len(self.nodes)

    def counters(self) -> Mapping[str, int]:
        return self.counted

    def as_json(self) -> dict[str, Any]:
        return {
            "providers": list(self.providers),
            "counters": dict(self.counted),
            "levels": dict(self.levels),
            "quantized_share": self.quantized_share,
            "nodes": [asdict(node) for node in self.nodes],
        }


def place(runner: OnnxRunner) -> Placement:
    """Of a runner's own session, so that what is shown is what is timed."""
    return Placement(
        providers=tuple(short(name) for name in runner.spec.providers),
        nodes=runner.nodes,
        levels={level: sum(operators.values()) for level, operators in runner.levels.items()},
        counted=runner.counters(),
    )
