"""A fault planted in one layer is found there, whatever family the variant is of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from perf.catalogue import discover
from perf.check.localise import FUSED, children, localise
from perf.contract import Axis, Blueprint, Core, Preset, Shape, Variant, Work
from perf.runners import ModuleRunner

ROOT = Path(__file__).parents[3]
VARIANTS = discover([], [], ROOT).variants


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(12, 12)
        self.norm = nn.LayerNorm(12, eps=1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.norm(self.mix(x)).relu_()


class Net(nn.Module):
    """Two blocks in a list, and a head."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.head = nn.Linear(12, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


SHAPE = Shape("b5", {"batch": 5})


def inputs(shape: Shape, seed: int) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(shape["batch"], 12, generator=torch.Generator().manual_seed(seed))}


def plan(cache: Path) -> Blueprint:
    preset = Preset(Net, inputs, (SHAPE,))
    axes = {"x": {0: Axis("batch", 2, 64)}}
    core = Core("net", "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1), dynamic=axes)
    return Blueprint(
        core=core, preset=preset, shape=SHAPE, device="cpu", cache=cache,
        module=lambda dtype: Net().eval().requires_grad_(False).to(getattr(torch, dtype)),
        example=lambda seed: inputs(SHAPE, seed),
    )  # fmt: skip


def faulty(variant: Variant, layer: str, spoil: Callable[[Any], None]) -> Variant:
    """`variant`, built on a module one layer of which was spoilt first."""

    def build(blueprint: Blueprint) -> Any:
        def module(dtype: str) -> nn.Module:
            made = blueprint.module(dtype)
            spoil(made.get_submodule(layer))
            return made

        return variant.build(replace(blueprint, module=module))

    return replace(variant, build=build)


def wrong_epsilon(layer: Any) -> None:
    layer.eps = 1e-2


def wrong_weight(layer: Any) -> None:
    layer.weight.mul_(1.01)


@pytest.mark.parametrize("name", ["eager-fp32", "compile_eager", "aot_eager", "onnx-cpu-fp32"])
@pytest.mark.parametrize(
    ("layer", "spoil"),
    [("blocks.0.norm", wrong_epsilon), ("blocks.1.mix", wrong_weight), ("head", wrong_weight)],
)
def test_a_planted_fault_is_found_in_its_layer(
    tmp_path: Path, name: str, layer: str, spoil: Callable[[Any], None]
) -> None:
    variant = faulty(VARIANTS[name], layer, spoil)
    assert localise(plan(tmp_path), variant, inputs(SHAPE, 3)) == layer


def test_between_any_two_variants(tmp_path: Path) -> None:
    spoilt = faulty(VARIANTS["eager-fp32"], "blocks.1.norm", wrong_epsilon)
    found = localise(plan(tmp_path), VARIANTS["aot_eager"], inputs(SHAPE, 3), against=spoilt)
    assert found == "blocks.1.norm"


def test_a_right_variant_departs_nowhere(tmp_path: Path) -> None:
    assert localise(plan(tmp_path), VARIANTS["eager-fp32"], inputs(SHAPE, 3)) == FUSED


def test_a_fault_outside_all_layers_is_said_to_be_there(tmp_path: Path) -> None:
    class Doubled(ModuleRunner):
        def run(self, prepared: dict[str, Any]) -> Any:
            first, *taps = super().run(prepared)
            return (first * 2, *taps)

    doubling = Variant("doubled", lambda blueprint: Doubled(blueprint.module("float32"), "float32", "cpu"))
    assert localise(plan(tmp_path), doubling, inputs(SHAPE, 3)) == FUSED


def test_elements_stand_for_their_list() -> None:
    assert children(Net(), "") == ["blocks.0", "blocks.1", "head"]
    assert children(Net(), "blocks.1") == ["blocks.1.mix", "blocks.1.norm"]
    assert children(Net(), "head") == []
