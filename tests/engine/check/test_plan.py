"""Serving plans: one that covers, and one that does not, with the guard that says why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from perf.check.graphs import added_by, count_and_serve, count_graphs
from perf.contract import GraphSubject, ServingPlan
from perf.wholeness import _in_order

if TYPE_CHECKING:
    from conftest import Project

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("served", [("b9", "b5"), ("b5", "b9")], ids=["another way", "in order"])
@pytest.mark.parametrize("marks", ["recompiles", "graphbreaks or recompiles"])
@pytest.mark.parametrize(("warmup", "covers"), [(("b5", "b9"), True), (("b5",), False)])
def test_a_plan_covers_or_names_the_guard(
    project: Project, warmup: tuple[str, ...], covers: bool, marks: str, served: tuple[str, ...]
) -> None:
    path = project.path / "mycores/toy.py"
    plan = f"plan=ServingPlan({warmup!r}, {served!r}),"
    text = path.read_text().replace("import Axis,", "import ServingPlan, Axis,")
    path.write_text(text.replace('system="a toy",', f'system="a toy", {plan}'))
    result = project.run("-m", marks)
    assert result.ret == (0 if covers else 1)
    if not covers:
        result.stdout.fnmatch_lines(["*toy/tiny: serving compiles 1 more graphs: *size mismatch*"])


class Once(nn.Module):
    """Compiles anew for each call: an attribute that is guarded on moves."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


@pytest.mark.parametrize("dynamic", [None, False])
@pytest.mark.parametrize(("warmup", "served"), [(1, 1), (1, 3), (2, 3), (2, 4), (3, 4), (4, 4)])
def test_counted_and_served_at_once_is_what_either_is_alone(warmup: int, served: int, dynamic: bool | None) -> None:
    calls = [{"input": torch.ones(rows, columns)} for rows, columns in ((3, 4), (5, 4), (5, 6), (7, 8))]
    both = count_and_serve(nn.ReLU(), calls, warmup, served, root=ROOT, dynamic=dynamic)
    alone = added_by(nn.ReLU(), calls[:warmup], calls[:served], root=ROOT, dynamic=dynamic)
    assert both == (count_graphs(nn.ReLU(), calls, root=ROOT, dynamic=dynamic), alone)
    assert dynamic is None or alone.graphs == served - warmup


def test_what_compiles_again_when_it_is_served_is_counted_by_itself() -> None:
    assert count_and_serve(Once(), [{"x": torch.ones(3)}] * 2, 1, 2, root=ROOT) is None


def test_a_call_that_fails_is_named() -> None:
    calls = [{"input": torch.ones(3)}, {"input": torch.ones(3)}, {"wrong": torch.ones(3)}]
    for warmup, served in ((3, 3), (2, 3), (1, 2)):
        with pytest.raises(TypeError) as raised:
            count_and_serve(nn.ReLU(), calls, warmup, served, root=ROOT)
        assert raised.value.__notes__ == ["in call 3 of 3 while counting graphs"]


@pytest.mark.parametrize(
    ("warmup", "serve", "more", "found"),
    [
        ("ab", "abc", {}, (2, 3)),
        ("ab", "ab", {}, (2, 2)),
        ("ab", "abxc", {}, (2, 3)),  # x is no shape of this preset
        ("ba", "abc", {}, (0, 0)),
        ("ab", "bac", {}, (0, 0)),
        ("abc", "ab", {}, (0, 0)),
        ("ab", "abd", {}, (0, 0)),
        ("ab", "abc", {"impure": "reads numbers"}, (0, 0)),
        ("ab", "abc", {"plan": None}, (0, 0)),
    ],
)
def test_a_plan_that_goes_through_the_shapes_in_their_order(
    warmup: str, serve: str, more: dict[str, Any], found: tuple[int, int]
) -> None:
    core: Any = SimpleNamespace(**{"plan": ServingPlan(tuple(warmup), tuple(serve)), "impure": "", **more})
    assert _in_order(core, list("abcd"), GraphSubject("c", "tiny", "cpu", None)) == found
    assert _in_order(core, list("abcd"), GraphSubject("c", "tiny", "cpu", True)) == (0, 0)
