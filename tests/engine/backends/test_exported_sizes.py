"""Sizes that a core allows and what was exported of it does not: those shapes are skips, the others run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from perf.backends.torch_export import example, export, smallest
from perf.catalogue import discover
from perf.contract import Axis, Blueprint, Inputs, Shape
from perf.errors import UnsupportedError
from tests.engine.onnx_toys import blueprint

VARIANTS = discover([], [], Path(__file__).parents[3]).variants
BATCHES = (Shape("b1", {"batch": 1}), Shape("b3", {"batch": 3}))


class Photograph(nn.Module):
    """A convolution of images as a camera gives them, channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x.permute(0, 3, 1, 2))
        return y


class Named(nn.Module):
    """Names that the exporter gives others to, or takes for another's; and an input that is a number."""

    def forward(self, X: Tensor, times: int, x: Tensor, größe: Tensor) -> Tensor:
        return X.sum() * times + x.sum() + größe


def images(shape: Shape, seed: int) -> Inputs:
    """{x: [batch, 8, 8, 3]}."""
    draw = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(shape["batch"], 8, 8, 3, generator=draw)}


def photographs(cache: Path) -> Blueprint:
    """Of batches from 1, by what the core says."""
    return blueprint(cache, Photograph, inputs=images, shapes=BATCHES, dynamic={"x": {0: Axis("batch", 1, 8)}})


def sizes(plan: Blueprint) -> list[tuple[str, int, int]]:
    found = example(plan.core, plan.preset)
    return smallest(export(plan.module("float32"), found, "float32", "cpu"), found.axes)


@pytest.mark.parametrize("name", ["export-eager", "aot-inductor"])
def test_a_batch_of_one_is_a_skip_and_others_run(tmp_path: Path, name: str) -> None:
    """Both found out by themselves would raise: «Guard failed: x.size()[0] > 1», and that 1 is too small."""
    plan = photographs(tmp_path)
    for runner in (VARIANTS[name].build(plan), VARIANTS[name].build(plan)):  # compiled, and from the cache
        with pytest.raises(UnsupportedError, match=r"^torch\.export took x\[0\] for 2 or more, which 1 is not$"):
            runner.prepare(images(BATCHES[0], 0))
        x = images(BATCHES[1], 0)
        conv: Any = plan.module("float64").conv
        expected = conv2d(x["x"].double().permute(0, 3, 1, 2), conv.weight, conv.bias)
        (y,) = runner.outputs(runner.run(runner.prepare(x)))
        torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)


def test_sizes_are_what_the_program_holds_for(tmp_path: Path) -> None:
    assert sizes(photographs(tmp_path)) == [("x", 0, 2)]


def test_sizes_are_those_of_the_input_whatever_the_exporter_calls_it(tmp_path: Path) -> None:
    plan = blueprint(
        tmp_path,
        Named,
        inputs=lambda shape, seed: {
            "x": torch.zeros(shape["batch"], 4),
            "times": 2,
            "größe": torch.zeros(5, 6),
            "X": torch.zeros(7, shape["batch"]),
        },
        shapes=(Shape("b9", {"batch": 9}),),
        dynamic={"größe": {1: Axis("g", 5, 8)}, "X": {1: Axis("b", 3, 64)}, "x": {0: Axis("c", 2, 64)}},
    )
    assert sizes(plan) == [("größe", 1, 5), ("X", 1, 3), ("x", 0, 2)]


def columns(shape: Shape, seed: int) -> Inputs:
    """{input: [2, width]}."""
    return {"input": torch.arange(2.0 * shape["width"]).reshape(2, -1)}


def test_a_package_starts_at_two_of_a_multiple_and_the_program_runs_at_one(tmp_path: Path) -> None:
    """The axis allows 8 columns."""
    axes = {"input": {1: Axis("width", 8, 64, multiple=8)}}
    shapes = (Shape("w24", {"width": 24}), Shape("w8", {"width": 8}))
    plan = blueprint(tmp_path, nn.Identity, inputs=columns, shapes=shapes, dynamic=axes)
    assert sizes(plan) == [("input", 1, 16)]
    runner = VARIANTS["export-eager"].build(plan)
    (y,) = runner.outputs(runner.run(runner.prepare(columns(shapes[1], 0))))
    assert y.tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]]
