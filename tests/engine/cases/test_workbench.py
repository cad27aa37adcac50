"""What the workbench keeps, and what it lets go."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from perf.catalogue import Catalogue
from perf.contract import Blueprint, Case, Core, Preset, Shape, Variant, Work
from perf.errors import UnsupportedError
from perf.failures import Failures
from perf.runners import ModuleRunner
from perf.workbench import Workbench

CASE = Case("toy", "tiny", "plain", "s", "cpu")
ALIVE: list[weakref.ref[nn.Module]] = []


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = [self]  # a frame's variables hold the module
        raise RuntimeError(f"no {len(held)}")


def test_a_case_that_failed_says_so_again_and_keeps_nothing_that_was_built(tmp_path: Path) -> None:
    def build() -> nn.Module:
        module = Failing()
        ALIVE.append(weakref.ref(module))
        return module

    preset = Preset(build, lambda shape, seed: {"x": torch.ones(1, 3)}, (Shape("s", {}),))
    core = Core("toy", "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1))
    variant = Variant("plain", lambda plan: ModuleRunner(plan.module("float32"), "float32", plan.device))
    bench = Workbench(Catalogue({"toy": core}, {"plain": variant}), 0, tmp_path, tmp_path)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no 1") as raised:
            bench.parity(CASE)
        del raised
    bench.close()
    gc.collect()
    alive = [module for ref in ALIVE if (module := ref()) is not None]
    assert len(ALIVE) == 1
    assert len([item for item in gc.get_objects() if isinstance(item, Failing)]) == len(alive) == 1  # the master


@pytest.mark.parametrize(("fixed", "built"), [(False, ["s"]), (True, ["s", "t"])])
def test_what_did_not_build_is_not_built_again_for_another_suite_or_shape(
    tmp_path: Path, fixed: bool, built: list[str]
) -> None:
    tried: list[str] = []

    def build(plan: Blueprint) -> ModuleRunner:
        tried.append(plan.shape.name)
        raise UnsupportedError("no operator for it")

    preset = Preset(nn.Identity, lambda shape, seed: {"input": torch.ones(1, 3)}, (Shape("s", {}), Shape("t", {})))
    core = Core("toy", "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1))
    variant = Variant("plain", build, fixed_shape=fixed)
    bench = Workbench(Catalogue({"toy": core}, {"plain": variant}), 0, tmp_path, tmp_path)
    for ask in (bench.parity, bench.built, bench.parity, bench.prepared):
        for case in (CASE, replace(CASE, shape="t")):
            with pytest.raises(UnsupportedError, match="no operator for it"):
                ask(case)
    assert tried == built


class Ringed(nn.Module):
    """Only the garbage collector frees it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.ring = [self]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x


def test_nothing_of_a_core_is_left_when_the_next_ones_reference_is_built(tmp_path: Path) -> None:
    alive: list[weakref.ref[nn.Module]] = []
    left: list[int] = []

    def build() -> nn.Module:
        left.append(sum(ref() is not None for ref in alive))
        module = Ringed()
        alive.append(weakref.ref(module))
        return module

    def plain(plan: Blueprint) -> ModuleRunner:
        module = plan.module("float32")
        alive.append(weakref.ref(module))
        return ModuleRunner(module, "float32", plan.device)

    preset = Preset(build, lambda shape, seed: {"x": torch.arange(1.0, 4.0)}, (Shape("s", {}),))
    cores = {name: Core(name, "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1)) for name in "abc"}
    bench = Workbench(Catalogue(cores, {"plain": Variant("plain", plain)}), 0, tmp_path, tmp_path)
    for core in cores:
        assert bench.parity(replace(CASE, core=core)).ok
    assert left == [0, 0, 0]


def test_what_was_there_before_a_core_is_not_looked_through_while_it_is_measured(tmp_path: Path) -> None:
    preset = Preset(nn.Identity, lambda shape, seed: {"input": torch.ones(3)}, (Shape("s", {}),))
    cores = {name: Core(name, "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1)) for name in "ab"}
    variant = Variant("plain", lambda plan: ModuleRunner(plan.module("float32"), "float32", plan.device))
    bench = Workbench(Catalogue(cores, {"plain": variant}), 0, tmp_path, tmp_path)
    for core in cores:
        before = [Failing()]
        bench.built(replace(CASE, core=core))
        assert not any(item is before for item in gc.get_objects())
    gc.unfreeze()


@pytest.mark.parametrize("how", ["from", "during"])
def test_a_failure_lets_go_of_what_its_cause_had_built(how: str) -> None:
    alive: list[weakref.ref[nn.Module]] = []

    def first() -> None:
        module = Failing()
        alive.append(weakref.ref(module))
        raise ValueError("inner")

    def second() -> None:
        try:
            first()
        except ValueError as inner:
            if how == "from":
                raise RuntimeError("outer") from inner
            raise RuntimeError("outer")  # noqa: B904  # that is the other way

    failures = Failures()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="outer") as raised, failures.of("a", "case"):
            second()
        del raised
    gc.collect()
    assert [ref() for ref in alive] == [None]


def test_what_cannot_be_built_without_values_is_not_tried_again(tmp_path: Path) -> None:
    tried: list[str] = []

    def build() -> nn.Module:
        tried.append(torch.get_default_device().type)
        float(torch.ones(1).sum())
        return nn.Identity()

    preset = Preset(build, lambda shape, seed: {"input": torch.ones(3)}, (Shape("s", {}),))
    core = Core("toy", "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1))
    variant = Variant("plain", lambda plan: ModuleRunner(plan.module("float32"), "float32", plan.device))
    bench = Workbench(Catalogue({"toy": core}, {"plain": variant}), 0, tmp_path, tmp_path)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="meta"):
            bench.weightless("toy", "tiny")
    assert bench.cost(CASE) is None
    assert tried == ["meta"]
