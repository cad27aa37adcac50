"""Cores small enough to count their nodes by hand, and what a variant builds from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from perf.contract import Axis, Blueprint, Core, Inputs, Preset, Shape, Work

BATCH: Mapping[str, Mapping[int, Axis]] = {"x": {0: Axis("batch", 1, 64)}}
SHAPES = (Shape("b3", {"batch": 3}), Shape("b5", {"batch": 5}))


class Mlp(nn.Module):
    """Gemm, Relu, Gemm: three nodes, of which ONNX Runtime fuses the first two."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)
        self.gain = 1.5

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x).relu())
        return y


def seeded(kind: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind().eval().requires_grad_(False)


def rows(shape: Shape, seed: int) -> Inputs:
    """{x: [batch, 8]}."""
    return {"x": torch.randn(shape["batch"], 8, generator=torch.Generator().manual_seed(seed))}


def blueprint(
    cache: Path,
    kind: Callable[[], nn.Module] = Mlp,
    *,
    inputs: Callable[[Shape, int], Inputs] = rows,
    shapes: tuple[Shape, ...] = SHAPES,
    asked: int = 0,
    dynamic: Mapping[str, Mapping[int, Axis]] = BATCH,
    seed: int = 0,
) -> Blueprint:
    """Of a core of one preset, at the shape `asked` for by number, on the CPU."""
    preset = Preset(partial(seeded, kind, seed), inputs, shapes)
    core = Core(
        name="toy",
        system="a toy",
        source="here",
        presets={"tiny": preset},
        outputs=("y",),
        work=lambda shape: Work("rows", 1),
        dynamic=dynamic,
    )
    return Blueprint(
        core=core,
        preset=preset,
        shape=shapes[asked],
        device="cpu",
        cache=cache,
        module=lambda dtype: preset.build().to(getattr(torch, dtype)),
        example=partial(inputs, shapes[asked]),
    )
