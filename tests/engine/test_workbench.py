"""What the workbench keeps, and what it lets go."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from perf.catalogue import Catalogue
from perf.contract import Blueprint, Case, Core, Preset, Shape, Variant, Work
from perf.errors import UnsupportedError
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


def test_what_did_not_build_is_not_built_again_by_another_suite(tmp_path: Path) -> None:
    tried: list[str] = []

    def build(plan: Blueprint) -> ModuleRunner:
        tried.append(plan.core.name)
        raise UnsupportedError("no operator for it")

    preset = Preset(nn.Identity, lambda shape, seed: {"input": torch.ones(1, 3)}, (Shape("s", {}),))
    core = Core("toy", "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1))
    bench = Workbench(Catalogue({"toy": core}, {"plain": Variant("plain", build)}), 0, tmp_path, tmp_path)
    for ask in (bench.parity, bench.built, bench.parity, bench.prepared):
        with pytest.raises(UnsupportedError, match="no operator for it"):
            ask(CASE)
    assert tried == ["toy"]
