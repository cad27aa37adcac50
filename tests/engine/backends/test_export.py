"""`torch.export` of small cores: what stays open, what it is traced with, and why a core cannot be exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from perf.backends.libraries import library_versions
from perf.backends.torch_export import dims, example, refuse_large
from perf.catalogue import discover
from perf.contract import Axis, Blueprint, Shape
from perf.errors import UnsupportedError
from tests.engine.onnx_toys import blueprint, seeded

VARIANTS = discover([], [], Path(__file__).parents[3]).variants


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


class Specialises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(3, -1, 8).sum(1)


class Fails(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("the core's own fault")


def test_an_exported_core_equals_eager_at_every_batch(tmp_path: Path) -> None:
    plan = blueprint(tmp_path)
    runner = VARIANTS["export-eager"].build(plan)
    for batch in (1, 3, 5):
        inputs = {"x": torch.randn(batch, 8)}
        assert torch.equal(runner.run(runner.prepare(inputs)), plan.module("float32")(**inputs))
    with pytest.raises(AssertionError, match="Guard failed"):
        runner.run(runner.prepare({"x": torch.randn(65, 8)}))


@pytest.mark.parametrize("name", ["export-eager", "aot-inductor"])
def test_data_dependent_control_flow_is_a_skip_that_says_where(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        VARIANTS[name].build(blueprint(tmp_path, Branches))
    said = str(caught.value)
    assert said.startswith("torch.export: GuardOnDataDependentSymNode: Could not guard on data-dependent expression")
    assert said.endswith("if x.sum() > 0:)")
    assert "test_export.py:" in said
    assert "\n" not in said


def test_an_axis_that_the_code_fixes_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"Constraints violated .*batch.*"):
        VARIANTS["export-eager"].build(blueprint(tmp_path, Specialises))


def test_the_cores_own_error_is_no_skip(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the core's own fault"):
        VARIANTS["export-eager"].build(blueprint(tmp_path, Fails))


def given(*sizes: tuple[int, int]) -> Blueprint:
    """A core of x [batch, width] at these sizes, both axes open from 2."""
    shapes = tuple(Shape(f"{b}-{w}", {"batch": b, "width": w}) for b, w in sizes)
    axes: Mapping[str, Mapping[int, Axis]] = {"x": {0: Axis("batch", 2, 8), 1: Axis("width", 2, 90)}}
    draws = lambda shape, seed: {"x": torch.zeros(shape["batch"], shape["width"])}  # noqa: E731
    return blueprint(Path(), inputs=draws, shapes=shapes, dynamic=axes)


def test_the_example_is_two_or_more_along_what_stays_open() -> None:
    plan = given((1, 16), (3, 1), (3, 24))
    found = example(plan.core, plan.preset)
    assert tuple(found.inputs["x"].shape) == (3, 24)
    assert [(axis.min, axis.max) for axis in found.axes["x"].values()] == [(1, 8), (1, 90)]
    assert found.reaches_one


def test_an_axis_that_is_always_one_stays_closed() -> None:
    plan = given((1, 16), (1, 24))
    found = example(plan.core, plan.preset)
    assert list(found.axes["x"]) == [1]
    assert not found.reaches_one


def test_no_shape_that_fits_is_said() -> None:
    plan = given((1, 16), (3, 1))
    with pytest.raises(UnsupportedError, match=r"two or more along each of x\[0\], x\[1\] at once: add one"):
        example(plan.core, plan.preset)


def test_a_multiple_keeps_within_its_bounds() -> None:
    """From 20 to 70 the multiples of 8 are 24 to 64: 3 · 8 to 8 · 8. Equal symbols are one dimension."""
    x = torch.zeros(3, 24)
    found = dims({"x": x, "y": x, "n": 4}, {"x": {1: Axis("w", 20, 70, 8)}, "y": {1: Axis("w", 20, 70, 8)}})
    assert found["n"] is None
    root = found["x"][1].root  # type: ignore[index]
    assert (root.min, root.max) == (3, 8)
    assert root is found["y"][1].root  # type: ignore[index]


def test_libraries_are_those_of_the_classes() -> None:
    (torchs,) = library_versions(seeded(Branches))
    assert torchs.startswith("torch ")


def test_what_is_too_large_for_a_file_is_a_skip() -> None:
    """Linear(8, 4) has 36 weights of four bytes: 144."""
    module = nn.Linear(8, 4)
    refuse_large(module, largest=144)
    with pytest.raises(UnsupportedError, match=r"^0\.0 GB of weights: exported files are of up to 0\.0 GB"):
        refuse_large(module, largest=143)


@pytest.mark.parametrize("name", ["aot-inductor", "onnx-cpu-fp32"])
def test_a_core_that_is_too_large_is_not_exported(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = blueprint(tmp_path)
    huge = nn.Linear(1, 1, device="meta")
    huge.weight = nn.Parameter(torch.empty(1 << 30, 2, device="meta"))  # 8 GiB
    with pytest.raises(UnsupportedError, match=r"^8\.6 GB of weights: exported files are of up to 4\.3 GB"):
        VARIANTS[name].build(replace(plan, module=lambda dtype: huge))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
