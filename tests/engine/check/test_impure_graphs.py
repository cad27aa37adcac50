"""What graphs are counted of, and where TorchDynamo itself fails: a failure of a core that should be whole, a reason of
one that is not."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from perf.catalogue import Catalogue
from perf.check.graphs import GraphReport
from perf.contract import Core, GraphSubject, Inputs, Preset, Shape, Work
from perf.errors import UnsupportedError
from perf.session import Session
from perf.wholeness import count_graphs
from perf.workbench import Workbench

SUBJECT = GraphSubject("pipeline", "tiny", "cpu", None)


def inputs(shape: Shape, seed: int) -> Inputs:
    return {"input": torch.ones(3)}


def session(root: Path, impure: str, build: Callable[[], nn.Module] = nn.ReLU, reference: str = "float64") -> Session:
    preset = Preset(build, inputs, (Shape("s", {}),), reference)
    core = Core("pipeline", "a toy", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 3))
    catalogue = Catalogue({"pipeline": replace(core, impure=impure)}, {})
    options: Any = SimpleNamespace(root=root, seed=0)
    return Session(options, catalogue, [], [], Workbench(catalogue, 0, root, root))


def test_dynamos_own_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = AssertionError("Guard failed on the same frame it was created. This is a bug.\nGuard fail reason: …")
    monkeypatch.setattr("perf.wholeness.counted", Mock(side_effect=broken))
    with pytest.raises(UnsupportedError) as skipped:
        count_graphs(session(tmp_path, "a loop over numpy's numbers"), SUBJECT)
    assert str(skipped.value) == (
        "TorchDynamo fails on this impure core: "
        "AssertionError: Guard failed on the same frame it was created. This is a bug."
    )
    with pytest.raises(AssertionError):
        count_graphs(session(tmp_path, ""), SUBJECT)


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, MemoryError])
def test_a_memory_that_is_full_is_no_failure_of_dynamos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    monkeypatch.setattr("perf.wholeness.counted", Mock(side_effect=kind("the card is full")))
    with pytest.raises(kind):
        count_graphs(session(tmp_path, "a loop over numpy's numbers"), SUBJECT)


SEEN: set[tuple[torch.dtype, torch.dtype]] = set()


class Seeing(nn.Module):
    """Notes of what dtype it is, and what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        SEEN.add((self.weight.dtype, input.dtype))
        return input * self.weight


@pytest.mark.parametrize(
    ("reference", "dtype"), [("float64", torch.float32), ("float32", torch.bfloat16)], ids=["small", "large"]
)
def test_graphs_of_a_large_preset_are_counted_in_bfloat16(
    tmp_path: Path, reference: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(module: nn.Module, calls: list[Inputs], **_: object) -> GraphReport:
        for call in calls:
            module(**call)
        return GraphReport(1, (), (), 0, 0, len(calls))

    monkeypatch.setattr("perf.wholeness.counted", called)
    SEEN.clear()
    count_graphs(session(tmp_path, "", Seeing, reference), SUBJECT)
    assert {(dtype, dtype)} == SEEN


def test_what_fails_beside_those_who_compile_is_counted_again_beside_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[weakref.ref[nn.Module]] = []
    waited: list[int] = []

    def full(module: nn.Module, calls: list[Inputs], **_: object) -> GraphReport:
        alive.append(weakref.ref(module))
        if len(alive) == 1:
            raise MemoryError("the card is full")
        return GraphReport(3, (), (), 0, 0, len(calls))

    def wait() -> list[str]:
        waited.append(len(alive))
        return []

    monkeypatch.setattr("perf.wholeness.counted", full)
    run = session(tmp_path, "", Seeing, "float64")
    run.background = Mock(crashed={}, wait=wait)
    assert count_graphs(run, SUBJECT) == ""
    assert (run.graphs[SUBJECT.key].graphs, waited, alive[0]()) == (3, [1], None)
    alive.clear()
    with pytest.raises(MemoryError):
        count_graphs(run, SUBJECT)
    assert len(alive) == 1
