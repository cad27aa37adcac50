"""FLUX's cores against oracles: published sizes, torch's own FLOP counter, a hand-written sampler, known checksums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fixtures.cores import flux, flux_pipeline, flux_text
from fixtures.models.flux_configs import CLIP, T5, TRANSFORMER, image_tokens
from fixtures.tasks_image import PERFECT_DB, psnr
from perf.contract import Inputs

PURE = {core.name: core for core in (*flux.CORES, *flux_text.CORES)}
PIPELINE = flux_pipeline.CORES[0]


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def on(device: str, inputs: Inputs) -> dict[str, Tensor]:
    return {name: value.to(device) for name, value in inputs.items()}


def on_meta(build: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return build()


# Sizes and work


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("flux-transformer", 11_901_408_320),
        ("flux-vae-decode", 83_819_683),
        ("flux-clip", 123_060_480),
        ("flux-t5", 4_762_310_656),
    ],
)
def test_full_presets_have_the_published_number_of_parameters(name: str, published: int) -> None:
    module = on_meta(PURE[name].presets["full"].build)
    assert sum(parameter.numel() for parameter in module.parameters()) == published


# Inputs


def test_position_ids_are_the_pipelines_own_and_no_views() -> None:
    from diffusers import FluxPipeline

    ours = flux.position_ids(112)
    theirs = FluxPipeline._prepare_latent_image_ids(1, 7, 7, torch.device("cpu"), torch.float32)
    assert torch.equal(ours, theirs)
    assert not ours._is_view()


@pytest.mark.parametrize("seed", range(15))
def test_time_and_guidance_do_not_round_in_bfloat16(seed: int) -> None:
    inputs = flux.transformer_inputs(TRANSFORMER["tiny"], flux.STEPS["tiny"][0], seed)
    for name in ("timestep", "guidance"):
        assert torch.equal((inputs[name].bfloat16() * 1000).float(), inputs[name] * 1000)


def test_token_ids_are_crc32_of_pieces() -> None:
    # CRC-32 of "a" is E8B7BE43 (zlib's and every other list of check values)
    assert flux_text.token_ids("A", range(3, 13)) == [3 + 0xE8B7BE43 % 10]
    assert flux_text.token_ids("photographs!", range(3, 13)) == [
        token for piece in ("photog", "raphs", "!") for token in flux_text.token_ids(piece, range(3, 13))
    ]
    assert flux_text.token_ids("", range(3, 13)) == []


def test_long_texts_are_cut_and_short_ones_padded_behind_one_end_token() -> None:
    ids = flux_text.t5_inputs(T5["tiny"], flux_text.encoding(64, 20), 0)["input_ids"]
    lengths = (ids != flux_text.T5_PADDING).sum(dim=1)
    assert ids.shape == (64, 20)
    assert lengths.min() < 20
    assert lengths.max() == 20
    assert torch.equal(ids.gather(1, lengths[:, None] - 1), torch.full((64, 1), flux_text.T5_END))
    assert ((ids == flux_text.T5_END).sum(dim=1) == 1).all()


def test_clip_pools_at_the_first_end_token() -> None:
    ids = flux_text.clip_inputs(CLIP["tiny"], flux_text.encoding(3, 77), 0)["input_ids"]
    hidden, pooled = PURE["flux-clip"].presets["tiny"].build()(ids)
    firsts = [row.index(CLIP["tiny"]["vocab_size"] - 1) for row in ids.tolist()]
    assert torch.equal(pooled, torch.stack([hidden[row, first] for row, first in enumerate(firsts)]))
    assert len(set(firsts)) > 1


def test_clip_loads_the_published_names(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file
    from transformers import PreTrainedModel

    module = PURE["flux-clip"].presets["tiny"].build()
    assert isinstance(module, PreTrainedModel)
    module.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file({f"text_model.{name}": value for name, value in load_file(path).items()}, path, metadata={"format": "pt"})
    loaded = type(module).from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(value, loaded[name]) for name, value in module.state_dict().items())


# The pipeline


def test_pipeline_is_euler_steps_of_the_transformer_then_the_decoder() -> None:
    """The sampler written out: x += (σ[i+1] - σ[i]) · v at time σ[i], σ shifted by e^mu (Esser et al. 2024, eq. 23)."""
    shape = PIPELINE.presets["tiny"].shapes[0]
    call = dict(PIPELINE.presets["tiny"].inputs(shape, 5))
    images = PIPELINE.presets["tiny"].build()(**call)
    tokens, steps = image_tokens(shape["px"]), shape["steps"]
    mu = 0.5 + (1.15 - 0.5) * (tokens - 256) / (4096 - 256)
    plain = [1.0 - step * (1.0 - 1.0 / steps) / (steps - 1) for step in range(steps)]
    sigmas = [math.exp(mu) / (math.exp(mu) + 1.0 / sigma - 1.0) for sigma in plain] + [0.0]
    x = torch.randn(shape["batch"], tokens, 64, generator=torch.Generator().manual_seed(5))
    denoise = PURE["flux-transformer"].presets["tiny"].build()
    for now, after in pairwise(sigmas):
        x = x + (after - now) * denoise(
            hidden_states=x,
            encoder_hidden_states=call["prompt_embeds"],
            pooled_projections=call["pooled_prompt_embeds"],
            timestep=torch.full((shape["batch"],), now),
            img_ids=flux.position_ids(shape["px"]),
            txt_ids=torch.zeros(shape["tokens"], 3),
            guidance=torch.full((shape["batch"],), 3.5),
        )
    side = shape["px"] // 16
    latents = x.reshape(-1, side, side, 16, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(-1, 16, 2 * side, 2 * side)
    pixels = PURE["flux-vae-decode"].presets["tiny"].build()(latents / 0.3611 + 0.1159)
    torch.testing.assert_close(images, (pixels / 2 + 0.5).clamp(0, 1), rtol=0, atol=1e-5)


# Task measures


def test_psnr_by_hand() -> None:
    reference = torch.tensor([0.0, 1.0, 2.0, 4.0])
    assert psnr((reference,), (reference + 0.4,)) == pytest.approx(20.0)  # 10·log10(4² / 0.4²)
    assert psnr((reference, reference), (reference, reference - 0.04)) == pytest.approx(40.0, abs=1e-4)
    assert psnr((reference,), (reference,)) == PERFECT_DB
    assert psnr((reference,), (reference * torch.nan,)) == 0.0
    assert psnr((reference,), (reference + 400.0,)) == 0.0


def test_psnr_refuses_what_has_no_peak_or_another_form() -> None:
    with pytest.raises(ValueError, match=r"range 0\.0"):
        psnr((torch.ones(3),), (torch.ones(3),))
    with pytest.raises(ValueError, match="shape"):
        psnr((torch.arange(3.0),), (torch.arange(4.0),))
    with pytest.raises(ValueError, match="2 outputs against 1"):
        psnr((torch.arange(3.0),), (torch.arange(3.0),) * 2)


def test_lowest_cosine_by_hand() -> None:
    reference = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    assert flux_text.lowest_cosine((reference,), (2 * reference,)) == pytest.approx(1.0)
    turned = torch.tensor([[3.0, 4.0], [3.0, 4.0]])  # second row: 3 / 5
    assert flux_text.lowest_cosine((reference,), (turned,)) == pytest.approx(0.6)
    assert flux_text.lowest_cosine((reference,), (reference * torch.nan,)) == -1.0
