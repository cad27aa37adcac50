"""CUDA graphs that Inductor captured. Counted in the trees that torch keeps of them, one node a captured graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch

CALLS_TO_CAPTURE = 3
"""The first call warms up, the second records, the third replays: fewer say nothing of capture."""


def captured() -> int:
    """Graphs captured on the current device and not yet freed; 0 where CUDA or Inductor's trees were never loaded."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is None or not torch.cuda.is_initialized():
        return 0
    manager = trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    return nodes(manager.roots.values()) if manager is not None and manager.roots else 0


def nodes(families: Iterable[Iterable[Any]]) -> int:
    """The nodes of a forest, each of whose nodes has `children`: lists of nodes by what was called next."""
    return sum(1 + nodes(node.children.values()) for family in families for node in family)
