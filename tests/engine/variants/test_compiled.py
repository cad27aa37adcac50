"""The compiled and eager families on small modules: what each option does, counted or compared to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from perf.backends.compiled_runners import StaticRunner
from perf.catalogue import discover
from perf.check.graphs import watching
from perf.contract import Axis, Blueprint, Core, Outputs, Preset, Shape, Variant, Work
from perf.errors import UnsupportedError
from perf.variants.compiled import variant

ROOT = Path(__file__).parents[3]
VARIANTS = discover([], [], ROOT).variants
SHAPES = (Shape("b5", {"batch": 5}), Shape("b9", {"batch": 9}))


class Blocks(nn.Module):
    """Three equal blocks in a ModuleList, and a head."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(12, 12), nn.GELU()) for _ in range(3))
            self.head = nn.Linear(12, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale).sin()


def inputs(shape: Shape, seed: int) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(shape["batch"], 12, generator=torch.Generator().manual_seed(seed))}


def blueprint(tmp_path: Path, build: type[nn.Module] = Blocks, **fields: Any) -> Blueprint:
    preset = Preset(build, inputs, SHAPES)
    axes = {"x": {0: Axis("batch", 2, 64)}}
    core = Core("c", "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1), dynamic=axes, **fields)
    return Blueprint(
        core=core, preset=preset, shape=SHAPES[0], device="cpu", cache=tmp_path,
        module=lambda dtype: build().eval().to(getattr(torch, dtype)), example=lambda seed: inputs(SHAPES[0], seed),
    )  # fmt: skip


def run(made: Variant, plan: Blueprint, *shapes: Shape) -> tuple[Outputs, dict[str, int]]:
    """The outputs at the last shape, and what Dynamo did over all of them."""
    with watching(ROOT) as seen:
        runner = made.build(plan)
        for shape in shapes or SHAPES[:1]:
            outputs = runner.outputs(runner.run(runner.prepare(inputs(shape, 0))))
        report = seen.report()
    runner.close()
    return outputs, dict(report.counters())


def eager(build: type[nn.Module] = Blocks, shape: Shape = SHAPES[0]) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = build().eval()(**inputs(shape, 0))
    return result


@pytest.mark.parametrize(
    ("name", "graphs"),
    [
        ("compile_eager", 1),
        ("aot_eager", 1),
        ("aot_eager-regional", 1),  # three equal blocks share one graph
        ("aot_eager-in_place", 1),
        ("compile_disabled", 0),
        ("eager-fp32", 0),
        ("eager-inference_mode", 0),
    ],
)
def test_equal_to_eager_with_so_many_graphs(tmp_path: Path, name: str, graphs: int) -> None:
    (y,), counters = run(VARIANTS[name], blueprint(tmp_path))
    assert torch.equal(y, eager())
    assert counters["graphs"] == graphs


@pytest.mark.parametrize(
    ("name", "graphs", "recompiles"),
    [("aot_eager", 2, 1), ("aot_eager-dynamic", 1, 0), ("aot_eager-marked", 1, 0)],
)
def test_two_batch_sizes(tmp_path: Path, name: str, graphs: int, recompiles: int) -> None:
    (y,), counters = run(VARIANTS[name], blueprint(tmp_path), *SHAPES)
    torch.testing.assert_close(y, eager(shape=SHAPES[1]))
    assert (counters["graphs"], counters["recompiles"]) == (graphs, recompiles)


def test_static_inputs_are_handed_to_the_compiler_as_such_and_other_addresses_compile_nothing(tmp_path: Path) -> None:
    seen: list[object] = []

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
        seen.extend(getattr(node, "_dynamo_static_input_type", None) for node in example if node.shape == (5, 12))
        seen.append(torch.compiler.config.cache_key_tag)
        return graph

    made = variant("static", lambda device: None, runner=StaticRunner, backend=backend)
    with watching(ROOT) as watched:
        runner = made.build(blueprint(tmp_path, Plain))
        first, second = (runner.prepare(inputs(SHAPES[0], seed)) for seed in (0, 1))
        (y,), (z,) = runner.outputs(runner.run(first)), runner.outputs(runner.run(second))
        counters = watched.report().counters()
    runner.close()
    assert first["x"].data_ptr() != second["x"].data_ptr()
    torch.testing.assert_close((y, z), ((first["x"] * 2).sin(), (second["x"] * 2).sin()))
    assert seen == ["unguarded", "static_inputs"]
    assert torch.compiler.config.cache_key_tag == ""
    assert (counters["graphs"], counters["recompiles"]) == (1, 0)


def test_a_pure_core_must_be_one_graph(tmp_path: Path) -> None:
    class Prints(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("here")
            return super().forward(x)

    with pytest.raises(torch._dynamo.exc.Unsupported):
        run(VARIANTS["compile_eager"], blueprint(tmp_path, Prints))
    _, counters = run(VARIANTS["compile_eager"], blueprint(tmp_path, Prints, impure="prints"))
    assert counters["graph_breaks"] > 0


def test_a_core_without_blocks_has_no_region(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"no nn\.ModuleList in this core"):
        VARIANTS["aot_eager-regional"].build(blueprint(tmp_path, Plain))


class Dismantled(Blocks):
    """Uses its blocks' parts, and never calls a block."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            for part in block:
                x = part(x)
        return self.head(x)


def test_what_compiled_nothing_is_not_eager_under_another_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="compiled nothing of this core"):
        run(VARIANTS["aot_eager-regional"], blueprint(tmp_path, Dismantled))


class OfTorch(nn.Sequential):
    """Stands for `nn.Sequential`, which wants its layers given."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.append(nn.Linear(12, 7))


OfTorch.__module__ = nn.Sequential.__module__


def test_in_place_compiles_what_is_of_torchs_own_classes_too(tmp_path: Path) -> None:
    preset = Preset(OfTorch, lambda shape, seed: {"input": inputs(shape, seed)["x"]}, SHAPES)
    plan = replace(blueprint(tmp_path, OfTorch), preset=preset)
    with watching(ROOT) as seen:
        runner = VARIANTS["aot_eager-in_place"].build(plan)
        (y,) = runner.outputs(runner.run(runner.prepare(preset.inputs(SHAPES[0], 0))))
        assert seen.report().counters()["graphs"] == 1
    runner.close()
    assert torch.equal(y, OfTorch()(inputs(SHAPES[0], 0)["x"]).detach())


def test_a_core_without_dynamic_axes_has_none_to_mark(tmp_path: Path) -> None:
    plan = blueprint(tmp_path)
    with pytest.raises(UnsupportedError, match="no dynamic axis"):
        VARIANTS["aot_eager-marked"].build(replace(plan, core=replace(plan.core, dynamic={})))


def test_channels_last_needs_an_image(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="4-D images"):
        VARIANTS["eager-channels_last"].build(blueprint(tmp_path))


def test_channels_last_runs_in_that_layout(tmp_path: Path) -> None:
    plan = replace(blueprint(tmp_path), module=lambda dtype: nn.Conv2d(3, 4, 3).eval(), example=lambda seed: image())
    runner = VARIANTS["eager-channels_last"].build(plan)
    prepared = runner.prepare(image())
    assert prepared["input"].is_contiguous(memory_format=torch.channels_last)
    assert runner.run(prepared).is_contiguous(memory_format=torch.channels_last)


class Attends(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.view(1, 1, *x.shape)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads).flatten(0, 2)


def test_attention_runs_on_the_back_end_asked_for_or_says_that_it_cannot(tmp_path: Path) -> None:
    (y,), _ = run(VARIANTS["eager-sdpa_math"], blueprint(tmp_path, Attends))
    torch.testing.assert_close(y, eager(Attends))
    with pytest.raises(UnsupportedError, match="EFFICIENT_ATTENTION has no kernel for this core's attention here"):
        run(VARIANTS["eager-sdpa_efficient"], blueprint(tmp_path, Attends))


def image() -> dict[str, torch.Tensor]:
    return {"input": torch.randn(2, 3, 8, 9)}


def test_a_backend_of_ones_own_runs_by_its_name(tmp_path: Path) -> None:
    seen: list[int] = []

    def counting(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> Any:
        seen.append(len(example))
        return graph.forward

    torch._dynamo.register_backend(counting, name="counting_for_a_test")
    mine = variant("compile-mine", backend="counting_for_a_test")
    assert mine.missing("cpu") is None
    (y,), _ = run(mine, blueprint(tmp_path))
    assert torch.equal(y, eager())
    assert len(seen) == 1
