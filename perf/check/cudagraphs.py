"""CUDA graphs that Inductor captured. Counted in the trees that torch keeps of them, one node a captured graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

CALLS_TO_CAPTURE = 3
"""The first call warms up, the second records, the third replays: fewer say nothing of capture."""


def captured() -> int:
    """Graphs captured on the current device and not yet freed; 0 where Inductor's trees were never loaded."""
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    manager = trees.get_manager(create_if_none_exists=False) if trees is not None else None
    return nodes(manager.roots.values()) if manager is not None and manager.roots else 0


def nodes(families: Iterable[Iterable[Any]]) -> int:
    """The nodes of a forest, each of whose nodes has `children`: lists of nodes by what was called next."""
    return sum(1 + nodes(node.children.values()) for family in families for node in family)
