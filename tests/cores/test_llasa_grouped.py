"""The step that copies nothing is the step."""

from __future__ import annotations

import pytest
import torch

from fixtures.cores import llasa
from fixtures.models.llasa_grouped import LlasaGroupedDecode
from fixtures.models.llasa_lm import LlasaDecode, random_lm
from perf.contract import Core, Inputs, Shape

CORES: dict[str, Core] = {core.name: core for core in llasa.CORES}
PRESET = CORES["llasa-decode-grouped"].presets["tiny"]


def exact(inputs: Inputs) -> Inputs:
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


@torch.no_grad()
def step(inputs: Inputs) -> list[torch.Tensor]:
    return list(random_lm(LlasaGroupedDecode, "tiny").merge_().double()(**inputs))


@torch.no_grad()
def transformers_step(inputs: Inputs) -> list[torch.Tensor]:
    return list(random_lm(LlasaDecode, "tiny").double()(**inputs))


@pytest.mark.parametrize("shape", PRESET.shapes, ids=lambda shape: shape.name)
def test_it_is_transformers_step_in_float64(shape: Shape) -> None:
    inputs = exact(PRESET.inputs(shape, 3))
    for own, theirs in zip(step(inputs), transformers_step(inputs), strict=True):
        torch.testing.assert_close(own, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("filled", [0, 1])
def test_it_is_so_with_next_to_nothing_in_the_cache(filled: int) -> None:
    inputs = {**exact(PRESET.inputs(PRESET.shapes[0], 3)), "position": torch.full((2,), filled)}
    for own, theirs in zip(step(inputs), transformers_step(inputs), strict=True):
        torch.testing.assert_close(own, theirs, rtol=0, atol=1e-12)


def test_what_the_cache_holds_from_the_position_on_is_unread() -> None:
    inputs = exact(PRESET.inputs(PRESET.shapes[0], 3))
    unread = torch.arange(inputs["key"].shape[3]) >= inputs["position"][:, None]
    other = inputs | {name: inputs[name].masked_fill(unread[:, None, :, None], 1e3) for name in ("key", "value")}
    for own, again in zip(step(inputs), step(other), strict=True):
        assert torch.equal(own, again)


def test_rotary_frequencies_stay_float32_in_16_bit() -> None:
    lm = random_lm(LlasaDecode, "tiny")
    before = lm.model.rotary_emb.inv_freq.clone()
    half = lm.to(torch.bfloat16)
    assert half.lm_head.weight.dtype is torch.bfloat16
    assert torch.equal(half.model.rotary_emb.inv_freq, before)
    assert half.double().model.rotary_emb.inv_freq.dtype is torch.float64
