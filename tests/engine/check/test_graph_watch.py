"""Watching whatever is compiled, and demanding one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters as dynamo_counters

from perf.check.graphs import Break, GraphReport, Recompile, watching, whole
from perf.contract import Axis
from tests.engine.check.graph_toys import (
    ROOT,
    Around,
    Branch,
    InLoop,
    InNoGrad,
    Leaf,
    Outer,
    Whole,
    breaks,
    count,
    place,
)

pytestmark = pytest.mark.usefixtures("clean_dynamo")


class Specialises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 4 else x - 1


def test_fullgraph_is_refused_with_what_to_use() -> None:
    with pytest.raises(TypeError, match=r"use whole\(\)"):
        count(Whole(), fullgraph=True)


def test_a_watch_counts_any_backend_and_agrees_with_the_backend_itself() -> None:
    compiled = 0

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> Callable[..., Any]:
        nonlocal compiled
        compiled += 1
        dynamo_counters["inductor"]["cudagraph_skips"] += 2
        return graph.forward

    earlier = torch.compile(Whole(), backend="eager")
    earlier(torch.ones(3, 4))
    module = torch.compile(Outer(Around(Leaf())), backend=backend)
    with watching(ROOT) as seen:
        module(torch.ones(3, 4))
        halfway = seen.report()
        earlier(torch.ones(3, 4))
        module(torch.ones(3, 4))
    module(torch.ones(5, 4))
    report = seen.report(calls=2)
    assert breaks(report) == [(place(Leaf, "print"), 3, True)]
    assert (report.graphs, report.cudagraph_skips, report.calls) == (6, 12, 2)
    assert (halfway.breaks, halfway.graphs) == (report.breaks, 6)
    assert compiled == 12  # and six more outside, for the second shape


def test_watches_nest() -> None:
    with watching(ROOT) as outer:
        torch.compile(Leaf(), backend="eager")(torch.ones(3, 4))
        with watching(ROOT) as inner:
            torch.compile(InNoGrad(), backend="aot_eager")(torch.ones(3, 4))
        torch.compile(Branch(), backend="eager")(torch.ones(3, 4))
    assert breaks(inner.report()) == [(place(InNoGrad, "print"), 1, True)]
    assert [item.where for item in outer.report().breaks] == [
        place(Leaf, "print"),
        place(InNoGrad, "print"),
        place(Branch, "if x.sum()"),
    ]
    assert (inner.report().graphs, outer.report().graphs) == (2, 6)


def test_a_watch_names_the_break_that_fullgraph_stopped_at() -> None:
    with watching(ROOT) as seen, pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(Outer(Around(Leaf())), backend="eager", fullgraph=True)(torch.ones(3, 4))
    assert breaks(seen.report()) == [(place(Leaf, "print"), 1, True)]
    assert seen.report().graphs == 0


def test_reports_add_up_by_place() -> None:
    here, there = Break("print", "a.py:1", 2, True), Break("print", "b.py:1", 1, False)
    guard = Recompile("a.py:1", "n == 1", 1)
    total = GraphReport(1, (here,), (guard,), 0, 1, 1) + GraphReport(2, (there, here), (guard,), 1, 0, 3)
    assert total == GraphReport(
        3, (Break("print", "a.py:1", 4, True), there), (Recompile("a.py:1", "n == 1", 2),), 1, 1, 4
    )


def test_a_whole_module_is_whole() -> None:
    assert whole(Whole(), {"x": torch.ones(3, 4)}, root=ROOT) is None


@pytest.mark.parametrize(
    ("module", "at"),
    [(Outer(Around(Leaf())), (Leaf, "print")), (InLoop(), (InLoop, "print")), (Branch(), (Branch, "if x.sum()"))],
)
def test_a_module_that_is_not_whole_says_why_and_where(module: nn.Module, at: tuple[type, str]) -> None:
    why = whole(module, {"x": torch.ones(3, 4)}, root=ROOT) or ""
    assert why.endswith(f" — {place(*at)}")
    assert "\n" not in why


def test_a_dimension_that_is_marked_and_specialised_is_not_whole() -> None:
    why = whole(Specialises(), {"x": torch.ones(4, 3)}, root=ROOT, marks={"x": {0: Axis("rows", 2, 64)}}) or ""
    assert why.startswith("Constraints violated (L['x'].size()[0])!")
    assert "specialized it to be a constant (4)" in why


def test_where_compiling_is_switched_off_nothing_is_whole() -> None:
    with torch.compiler.set_stance("force_eager"):
        assert (whole(Whole(), {"x": torch.ones(3, 4)}, root=ROOT) or "").startswith("nothing was compiled")
        assert count(Whole()).graphs == 0
