"""For every core in the catalogue, for ever: random weights must not make parity vacuous.

With default initialisation a network's outputs can be 1e-8 apart, and then every error reads 0. So each floating output
has a standard deviation within 0.1 and 10 at every tiny shape, and moves when any single input does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from perf.catalogue import discover
from perf.contract import Core, Inputs, Outputs, Shape
from perf.modules import build_module, copied
from perf.runners import as_outputs

ROOT = Path(__file__).parents[2]
CORES = discover([ROOT / "fixtures" / "cores"], [], ROOT).cores
TINY = [
    pytest.param(core, preset, id=f"{name}/{preset}")
    for name, core in CORES.items()
    for preset in core.presets
    if preset.startswith("tiny")
]
LEAST_MOVE = 1e-3
"""In units of the output's standard deviation: far over rounding, far under what any input that matters does."""


@cache
def module(core_name: str, preset: str) -> torch.nn.Module:
    return build_module(CORES[core_name].presets[preset], "cpu", "float32")


def run(core: Core, preset: str, inputs: Inputs) -> Outputs:
    with torch.no_grad():
        return as_outputs(module(core.name, preset)(**inputs))


def perturbed(value: torch.Tensor) -> torch.Tensor:
    """Another legal value: floats moved by a tenth of their spread; integers rotated through all elements, or one less
    where that changes nothing.
    """
    if value.is_floating_point():
        spread = value.std() if value.numel() > 1 else value.abs().max()
        return value + 0.1 * (spread if spread > 0 else 1.0) * torch.ones_like(value).cumsum(-1).cos()
    rotated = value.roll(1)
    return (value - 1).abs().to(value.dtype) if torch.equal(rotated, value) else rotated


@pytest.mark.parametrize(("core", "preset"), TINY)
def test_outputs_are_spread(core: Core, preset: str) -> None:
    for shape in core.presets[preset].shapes:
        outputs = run(core, preset, core.presets[preset].inputs(shape, 1))
        assert len(outputs) == len(core.outputs)
        spreads = {n: o.std().item() for n, o in zip(core.outputs, outputs, strict=True) if o.is_floating_point()}
        assert all(0.1 <= spread <= 10.0 for spread in spreads.values()), (shape.name, spreads)


@pytest.mark.parametrize(("core", "preset"), TINY)
def test_every_input_matters(core: Core, preset: str) -> None:
    shape = core.presets[preset].shapes[0]
    inputs = core.presets[preset].inputs(shape, 1)
    before = run(core, preset, inputs)
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor):
            after = run(core, preset, {**inputs, name: perturbed(value)})
            assert moved(before, after) > LEAST_MOVE, f"{name} changes nothing"


def moved(before: Outputs, after: Outputs) -> float:
    """The largest change of any output, in units of its own spread; another shape is a change beyond measure."""
    if any(one.shape != two.shape for one, two in zip(before, after, strict=True)):
        return float("inf")
    pairs = [(one.double(), two.double()) for one, two in zip(before, after, strict=True)]
    return max(((one - two).abs().max() / one.std()).item() for one, two in pairs)


@pytest.mark.parametrize(("core", "preset"), TINY)
def test_another_seed_draws_other_inputs_and_the_same_seed_the_same(core: Core, preset: str) -> None:
    make = core.presets[preset].inputs
    shape = core.presets[preset].shapes[0]
    one, again, other = make(shape, 1), make(shape, 1), make(shape, 2)
    assert all(same(one[name], again[name]) for name in one)
    assert not all(same(one[name], other[name]) for name in one)


def same(one: object, two: object) -> bool:
    return torch.equal(one, two) if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor) else one == two


@pytest.mark.parametrize(("core", "preset"), TINY)
def test_building_twice_gives_the_same_weights(core: Core, preset: str) -> None:
    second = build_module(core.presets[preset], "cpu", "float32").state_dict()
    assert all(torch.equal(value, second[name]) for name, value in module(core.name, preset).state_dict().items())


@pytest.mark.parametrize(("core", "preset"), TINY)
def test_a_copy_computes_the_same_and_reaches_for_nothing_of_the_original(core: Core, preset: str) -> None:
    inputs = core.presets[preset].inputs(core.presets[preset].shapes[0], 1)
    expected = run(core, preset, inputs)
    original = build_module(core.presets[preset], "cpu", "float32")
    copy = copied(original, "cpu")
    assert copy is not None
    for tensor in [*original.parameters(), *original.buffers()]:
        tensor.zero_()
    with torch.no_grad():
        found = as_outputs(copy(**inputs))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_a_core_says_what_it_is(core: Core) -> None:
    named = {shape.name for preset in core.presets.values() for shape in preset.shapes}
    assert core.system
    assert core.source
    assert {"tiny", "full"} <= set(core.presets)
    assert core.plan is None or set(core.plan.warmup) | set(core.plan.served) <= named
    for preset in core.presets.values():
        assert all(core.work(shape).amount > 0 for shape in preset.shapes)
        assert len(names(preset.shapes)) == len(preset.shapes)


@pytest.mark.parametrize(("core", "preset"), TINY)
def test_inputs_and_outputs_have_names_of_their_own(core: Core, preset: str) -> None:
    """Exporters name a graph's values by both; one name for two values is no legal graph."""
    made = core.presets[preset]
    assert not set(core.outputs) & set(made.inputs(made.shapes[0], 0))


def names(shapes: tuple[Shape, ...]) -> set[str]:
    return {shape.name for shape in shapes}
