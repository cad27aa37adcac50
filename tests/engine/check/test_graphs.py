"""Each module here has a number of graphs and breaks that follows from how it is written."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from torch import nn

from perf.check.graphs import GraphReport, count_graphs
from tests.engine.check.graph_toys import (
    EAGER,
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


class ThreePlaces(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("first")
        x = x + 1
        print("second")
        x = x + 1
        print("third")
        return x + 1


def shout(x: torch.Tensor) -> torch.Tensor:
    print("shout")
    return x + 1


class OnePlaceThrice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = shout(x * 2)
        x = shout(x * 3)
        x = shout(x * 4)
        return x * 5


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Leaf() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class BeforeAnyOperator(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("before")
        return x + 1


class Manager:
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> None: ...


class InWith(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with Manager():
            y = y * 2
            print("in a with")
        return y


class InTry(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            y = x * 2
            print("in a try")
        finally:
            y = x + 3
        return y


def test_a_module_without_breaks_is_one_graph() -> None:
    assert count(Whole()) == GraphReport(1, (), (), 0, 0, calls=1)


def test_a_function_that_takes_keywords_will_do() -> None:
    assert count(shout).counters()["graph_breaks"] == 1
    assert breaks(count(shout)) == [(place(shout, "print"), 1, True)]


def test_a_break_splits_a_graph_in_two() -> None:
    report = count(Leaf())
    assert report.graphs == 2
    assert breaks(report) == [(place(Leaf, "print"), 1, True)]
    assert "print" in report.breaks[0].reason
    assert "\n" not in report.breaks[0].reason
    assert EAGER not in report.breaks[0].reason


def test_three_breaks_make_four_graphs() -> None:
    report = count(ThreePlaces())
    assert report.graphs == 4
    assert breaks(report) == [(place(ThreePlaces, word), 1, True) for word in ("first", "second", "third")]


def test_a_break_in_a_nested_module_breaks_every_function_around_it() -> None:
    report = count(Outer(Around(Leaf())))
    assert breaks(report) == [(place(Leaf, "print"), 3, True)]
    assert report.graphs == 6  # each of the three forwards in two parts, an operator in each


def test_one_line_reached_from_three_calls() -> None:
    report = count(OnePlaceThrice())
    assert breaks(report) == [(place(shout, "print"), 4, True)]  # three times in forward, once in shout itself
    assert report.graphs == 5  # forward in four parts; shout has no operator before its print, one after


def test_a_break_in_a_loop_leaves_the_function_to_eager() -> None:
    report = count(InLoop())
    assert report.graphs == 0
    assert breaks(report) == [(place(InLoop, "print"), 1, True)]
    assert EAGER in report.breaks[0].reason


def test_a_loop_over_blocks_is_left_to_eager_and_its_block_is_split() -> None:
    report = count(Blocks())
    assert report.graphs == 2  # Leaf in two parts, the same two for all three blocks
    assert breaks(report) == [(place(Leaf, "print"), 1, True)] * 2
    assert [EAGER in item.reason for item in report.breaks] == [True, False]


def test_a_break_before_any_operator_leaves_one_graph() -> None:
    report = count(BeforeAnyOperator())
    assert report.graphs == 1
    assert breaks(report) == [(place(BeforeAnyOperator, "print"), 1, True)]


def test_a_break_in_a_with_block_that_dynamo_knows_is_split() -> None:
    report = count(InNoGrad())
    assert report.graphs == 2
    assert breaks(report) == [(place(InNoGrad, "print"), 1, True)]


@pytest.mark.parametrize("module", [InWith, InTry])
def test_a_break_where_dynamo_cannot_resume_leaves_the_function_to_eager(module: type[nn.Module]) -> None:
    report = count(module())
    assert report.graphs == 0
    assert breaks(report) == [(place(module, "print"), 1, True)]
    assert EAGER in report.breaks[0].reason


def test_a_data_dependent_branch_breaks_once_and_compiles_each_side_that_is_taken() -> None:
    where = place(Branch, "if x.sum()")
    one_side = count_graphs(Branch(), [{"x": torch.ones(3, 4)}] * 2, root=ROOT)
    assert (one_side.graphs, breaks(one_side)) == (2, [(where, 1, True)])
    both = count_graphs(Branch(), [{"x": torch.ones(3, 4)}, {"x": -torch.ones(3, 4)}], root=ROOT)
    assert (both.graphs, breaks(both)) == (3, [(where, 1, True)])
    assert both.breaks[0].reason.startswith("Data-dependent branching: ")
