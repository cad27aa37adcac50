"""Captured CUDA graphs, counted in a forest of fakes; and on this machine, where there are none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perf.check.cudagraphs import captured, nodes
from perf.check.graphs import watching


def node(*children: Any) -> SimpleNamespace:
    return SimpleNamespace(children={"next": list(children)})


def test_every_node_of_every_tree_counts() -> None:
    assert nodes([[node(node(), node(node()))], [node()]]) == 5
    assert nodes([]) == 0


def test_the_managers_forest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.cudagraph_trees as trees

    def get_manager(device_index: int, create_if_none_exists: bool = True) -> SimpleNamespace:
        assert (device_index, create_if_none_exists) == (3, False)
        return SimpleNamespace(roots={0: [node(node())]})

    monkeypatch.setattr(trees, "get_manager", get_manager)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert captured() == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device would capture")
def test_without_a_device_nothing_is_captured_and_the_skip_is_counted(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with watching(tmp_path) as seen, torch.no_grad():
        torch.compile(lambda x: x.sin() + 1, mode="reduce-overhead")(torch.ones(5))
    assert captured() == 0
    assert seen.report().cudagraph_skips == 1


def test_the_reason_of_a_skip_is_kept(tmp_path: Path) -> None:
    """As torch says it of a graph on a GPU: through its own function, while a backend compiles."""
    from torch._inductor.cudagraph_utils import log_cudagraph_skip_and_bump_counter

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> Any:
        log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to mutated inputs")
        return graph.forward

    torch._dynamo.reset()
    with watching(tmp_path) as seen:
        torch.compile(lambda x: x.cos() + 2, backend=backend)(torch.ones(5))
    report = seen.report()
    assert report.cudagraph_skips == 1
    assert report.places() == ("CUDA graph skipped: skipping cudagraphs due to mutated inputs",)
