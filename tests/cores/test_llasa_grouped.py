"""The step that copies nothing is the step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fixtures.cores import llasa
from fixtures.models.llasa_grouped import LlasaGroupedDecode, merged
from fixtures.models.llasa_lm import LlasaDecode, random_lm
from fixtures.weights import load_into, save_as
from perf.contract import Core, Inputs, Shape
from perf.modules import copied

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


def test_merging_again_changes_nothing_and_a_bias_is_refused() -> None:
    lm = random_lm(LlasaGroupedDecode, "tiny").merge_()
    before = {name: tensor.clone() for name, tensor in lm.state_dict().items()}
    after = lm.merge_().state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    with pytest.raises(ValueError, match="bias"):
        merged(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))


def test_a_published_checkpoint_loads_into_the_merged_step(tmp_path: Path) -> None:
    published = random_lm(LlasaDecode, "tiny")
    with torch.no_grad():
        for parameter in published.parameters():
            parameter.mul_(1.25)
    save_as(published, tmp_path / "model.pt")
    lm = random_lm(LlasaGroupedDecode, "tiny").merge_()
    load_into(lm, tmp_path / "model.pt")
    attention, theirs = lm.model.layers[1].self_attn, published.model.layers[1].self_attn
    parts = (theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight)
    assert torch.equal(attention.qkv_proj.weight, torch.cat(parts))


def test_the_merged_step_is_copied_and_not_built_again() -> None:
    lm = random_lm(LlasaGroupedDecode, "tiny").merge_()
    again = copied(lm, "cpu")
    assert again is not None
    assert again.lm_head.weight is again.model.embed_tokens.weight
