"""FLUX's graphs as Dynamo really makes them: one a pure core, and a serving plan that covers, or does not (C13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from fixtures.cores import flux, flux_pipeline, flux_text
from fixtures.models.flux_configs import TRANSFORMER
from perf.contract import Core, Inputs, Preset, Shape

PURE = {core.name: core for core in (*flux.CORES, *flux_text.CORES)}
PIPELINE = flux_pipeline.CORES[0]


@pytest.fixture(autouse=True)
def _clean_dynamo_without_gradients() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def on(device: str, inputs: Inputs) -> dict[str, Tensor]:
    return {name: value.to(device) for name, value in inputs.items()}


def counted(
    module: nn.Module, dynamic: bool | None = None, fullgraph: bool = True
) -> tuple[Callable[..., object], list[int]]:
    """The compiled module, and a list that grows by one with every graph Dynamo really hands to a backend."""
    graphs: list[int] = []

    def count(graph: torch.fx.GraphModule, example: Sequence[Tensor]) -> Callable[..., object]:
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    return torch.compile(module, backend=count, dynamic=dynamic, fullgraph=fullgraph), graphs


def recompiles(
    module: nn.Module, preset: Preset, warmup: Sequence[Shape], served: Sequence[Shape], device: str = "cpu"
) -> int:
    """Graphs that serving adds after the warm-up."""
    compiled, graphs = counted(module)
    for shape in warmup:
        compiled(**on(device, preset.inputs(shape, 0)))
    warm = len(graphs)
    assert warm > 0
    for shape in served:
        compiled(**on(device, preset.inputs(shape, 1)))
    return len(graphs) - warm


def planned(core: Core, preset: str, names: Sequence[str]) -> list[Shape]:
    return [shape for shape in core.presets[preset].shapes if shape.name in names]


@pytest.mark.parametrize("core", PURE.values(), ids=PURE)
def test_one_dynamic_graph_serves_every_tiny_shape(core: Core) -> None:
    compiled, graphs = counted(core.presets["tiny"].build(), dynamic=True)
    for shape in core.presets["tiny"].shapes:
        compiled(**core.presets["tiny"].inputs(shape, 0))
    assert len(graphs) == 1


@pytest.mark.parametrize("core", PURE.values(), ids=PURE)
def test_the_plan_covers_what_is_served(core: Core) -> None:
    assert core.plan is not None
    warmup, served = planned(core, "tiny", core.plan.warmup), planned(core, "tiny", core.plan.served)
    assert {shape.name for shape in served} - {shape.name for shape in warmup}, "the plan rests on dynamic shapes"
    assert recompiles(core.presets["tiny"].build(), core.presets["tiny"], warmup, served) == 0


@pytest.mark.parametrize("core", PURE.values(), ids=PURE)
def test_a_warm_up_that_does_not_match_recompiles(core: Core) -> None:
    first, second, *_ = core.presets["tiny"].shapes
    assert recompiles(core.presets["tiny"].build(), core.presets["tiny"], [first], [second]) > 0


def one_block_of_each_kind() -> nn.Module:
    """The published transformer but for its depth, without storage: its graphs are keyed as the whole one's are."""
    shallow = {**TRANSFORMER["full"], "num_layers": 1, "num_single_layers": 1}
    with torch.device("meta"):
        return flux.build_transformer(shallow)


def test_the_published_mismatch_recompiles_and_the_full_plan_does_not() -> None:
    """256 px, one image, 64 tokens to warm up, then 1024 px, five images, 512 tokens: C13's request, at full width."""
    core = PURE["flux-transformer"]
    full, plan, module = core.presets["full"], core.plan, one_block_of_each_kind()
    small, request = flux.generation(256, 1, 64), flux.generation(1024, 5, 512)
    assert plan is not None
    assert recompiles(module, full, [small], [request], "meta") == 1
    assert recompiles(module, full, planned(core, "full", plan.warmup), planned(core, "full", plan.served), "meta") == 0
    assert request in planned(core, "full", plan.served)
    assert request not in planned(core, "full", plan.warmup)


def test_pipeline_breaks_at_its_random_generator_and_at_what_diffusers_disables() -> None:
    compiled, graphs = counted(PIPELINE.presets["tiny"].build(), fullgraph=False)
    counters.clear()
    compiled(**PIPELINE.presets["tiny"].inputs(flux_pipeline.request(80, 2, 20, steps=1), 0))
    reasons = "\n".join(counters["graph_break"])
    assert len(graphs) > 1
    assert "Generator" in reasons
    assert "torch.compiler.disable" in reasons
