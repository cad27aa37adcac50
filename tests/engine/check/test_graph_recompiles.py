"""Recompiles with the guard that failed, marked dimensions, and the limit past which torch runs eagerly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch import nn

from perf.check.graphs import GraphReport, Recompile, count_graphs
from perf.contract import Axis
from tests.engine.check.graph_toys import ROOT, Raises, Whole, count, place

pytestmark = pytest.mark.usefixtures("clean_dynamo")


class Catches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            raise KeyError("inside")
        except KeyError:
            return x + 1


class Flag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.times = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.times = self.times + 1
        return x * self.times


def test_static_shapes_recompile_for_each() -> None:
    report = count(Whole(), 3, 5, 5, 7, dynamic=False)
    where, said = place(Whole, "def forward"), "tensor 'x' size mismatch at index 0. expected {}, actual {}"
    assert report.graphs == 3
    assert report.recompiles == (Recompile(where, said.format(3, 5), 1), Recompile(where, said.format(5, 7), 1))
    assert report.breaks == ()


def test_shapes_recompile_once_where_dynamo_decides_and_never_where_they_are_dynamic() -> None:
    assert count(Whole(), 3, 5, 7, 9).counters()["recompiles"] == 1
    assert count(Whole(), 3, 5, 7, 9, dynamic=True) == GraphReport(1, (), (), 0, 0, calls=4)


def test_a_guard_is_one_line_without_numbers_that_differ_between_runs() -> None:
    def apply(x: torch.Tensor, fn: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return fn(x)

    x = torch.ones(3, 4)
    report = count_graphs(apply, [{"x": x, "fn": fn} for fn in (torch.sin, torch.cos)], root=ROOT)
    guard = report.recompiles[0].guard
    assert guard.startswith("___check_obj_id(fn, …)")
    assert "\n" not in guard
    assert Path(__file__).stem not in guard


def test_a_counter_in_the_module_recompiles_with_the_line_that_reads_it() -> None:
    report = count(Flag(), 3, 3)
    assert [item.where for item in report.recompiles] == [place(Flag, "def forward")]
    assert report.recompiles[0].guard == "self.times == 1  # self.times = self.times + 1"


def test_marks_make_one_graph_and_leave_the_tensors_as_they_were() -> None:
    calls = [{"x": torch.ones(n, 4)} for n in (3, 5, 7)]
    report = count_graphs(Whole(), calls, root=ROOT, marks={"x": {0: Axis("rows", 2, 64)}})
    assert report == GraphReport(1, (), (), 0, 0, calls=3)
    assert [call["x"].__dict__ for call in calls] == [{}, {}, {}]


def test_marks_of_an_input_that_is_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="marks name y, which is no input: the inputs are x"):
        count(Whole(), marks={"y": {0: Axis("rows")}})


def test_past_the_recompile_limit_nothing_is_compiled_and_that_is_said() -> None:
    with torch._dynamo.config.patch(recompile_limit=2):
        report = count(Whole(), 3, 5, 7, 9, 11, dynamic=False)
    assert (report.graphs, report.limit_hits, report.counters()["recompiles"]) == (2, 1, 1)
    assert report.breaks == ()


def test_what_a_call_raises_is_raised_with_the_number_of_the_call() -> None:
    with pytest.raises(ValueError, match="no five") as caught:
        count(Raises(), 3, 5, 7, dynamic=False)
    assert caught.value.__notes__ == ["in call 2 of 3 while counting graphs"]


def test_an_exception_that_the_module_catches_breaks_nothing() -> None:
    assert count(Catches()) == GraphReport(1, (), (), 0, 0, calls=1)
