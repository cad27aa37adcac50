"""Modules whose graphs and breaks follow from how they are written, and how their counts are asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from perf.check.graphs import GraphReport, count_graphs

ROOT = Path(__file__).parent
EAGER = "[the whole function runs eagerly"


def place(of: Callable[..., Any] | type, snippet: str) -> str:
    """`graph_toys.py:LINE` of the one line in the source of `of` that holds `snippet`."""
    lines, first = inspect.getsourcelines(of)
    found = [first + offset for offset, line in enumerate(lines) if snippet in line]
    assert len(found) == 1, (snippet, found)
    return f"{Path(inspect.getsourcefile(of) or '').name}:{found[0]}"


def count(module: Callable[..., Any], *rows: int, **options: Any) -> GraphReport:
    """Counts over one call for each of `rows`, with a tensor of rows × 4 named x."""
    return count_graphs(module, [{"x": torch.ones(n, 4)} for n in rows or (3,)], root=ROOT, **options)


def breaks(report: GraphReport) -> list[tuple[str, int, bool]]:
    return [(item.where, item.count, item.own) for item in report.breaks]


class Whole(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


class Leaf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("leaf")
        return x * 2


class Around(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x - 1)
        return y * 3


class Outer(Around):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x + 5)
        return y - 7


class InLoop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + 1
            print("in a loop")
        return x


class InNoGrad(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with torch.no_grad():
            y = y * 2
            print("in no_grad")
            y = y + 3
        return y


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 5:
            raise ValueError("no five")
        return x + 1
