"""What a call of each core costs, counted on the meta device, beside closed forms that were written down by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from fixtures.cores.flux_pipeline import PARAMETERS as TRANSFORMER_PARAMETERS
from fixtures.cores.style_bert_vits2 import PARAMETERS as SPEECH_PARAMETERS
from fixtures.models.flux_configs import CLIP, T5, TRANSFORMER, VAE, Config, image_tokens
from fixtures.models.flux_flops import transformer_flops, vae_decode_flops
from fixtures.models.llasa_configs import LANGUAGE_MODEL, cache_shape
from fixtures.models.sbv2.config import JP_EXTRA, TINY_JP_EXTRA
from fixtures.models.sbv2.cost import decode_flops, encode_flops
from perf.catalogue import discover
from perf.contract import Case, Cost, Shape
from perf.workbench import Workbench

ROOT = Path(__file__).parents[2]
CATALOGUE = discover([ROOT / "fixtures" / "cores"], [], ROOT)
BENCH = Workbench(CATALOGUE, 0, ROOT / ".cache", ROOT)
PURE = [name for name, core in CATALOGUE.cores.items() if not core.impure]


@cache
def counted(core: str, preset: str) -> tuple[Shape, Cost]:
    """Of the preset's first shape."""
    shape = CATALOGUE.cores[core].presets[preset].shapes[0]
    found = BENCH.cost(Case(core, preset, "eager-fp32", shape.name, "cpu"))
    assert found is not None
    return shape, found


@pytest.mark.parametrize("core", PURE)
def test_every_pure_core_is_counted(core: str) -> None:
    _, cost = counted(core, "tiny")
    assert cost.values + cost.integer_bytes > 0
    assert bool(cost.flops) == bool(cost.weights) == (not core.startswith("llasa-tokens"))


def t5_flops(config: Config, batch: int, tokens: int) -> float:
    """Per layer and token, with a = heads · d_kv: 8·d·a for q, k, v, o, 6·d·ff for the MLP, 4·tokens·a of attention."""
    attention, d = config["num_heads"] * config["d_kv"], config["d_model"]
    per_token = 8 * d * attention + 6 * d * config["d_ff"] + 4 * tokens * attention
    return float(batch * tokens * config["num_layers"] * per_token)


def clip_flops(config: Config, batch: int, tokens: int) -> float:
    """Per layer and token: 8·d² for q, k, v, o, 4·d·ff for the MLP, 4·tokens·d for attention, masked or not."""
    d = config["hidden_size"]
    per_token = 8 * d**2 + 4 * d * config["intermediate_size"] + 4 * tokens * d
    return float(batch * tokens * config["num_hidden_layers"] * per_token)


@pytest.mark.parametrize("preset", ["tiny", "full"])
def test_flux_costs_what_its_closed_forms_say(preset: str) -> None:
    shape, cost = counted("flux-transformer", preset)
    assert cost.flops == transformer_flops(
        TRANSFORMER[preset], shape["batch"], image_tokens(shape["px"]), shape["tokens"]
    )
    assert cost.weights == TRANSFORMER_PARAMETERS[preset]
    shape, cost = counted("flux-vae-decode", preset)
    assert cost.flops == vae_decode_flops(VAE[preset], shape["batch"], shape["px"])
    shape, cost = counted("flux-t5", preset)
    assert cost.flops == t5_flops(T5[preset], shape["batch"], shape["tokens"])
    assert cost.integer_bytes == 8 * shape["batch"] * shape["tokens"]
    shape, cost = counted("flux-clip", preset)
    assert cost.flops == clip_flops(CLIP[preset], shape["batch"], shape["tokens"])


def test_t5_reads_of_its_vocabulary_the_rows_that_it_looks_up() -> None:
    shape, cost = counted("flux-t5", "full")
    vocabulary = T5["full"]["vocab_size"] * T5["full"]["d_model"]
    # The position bias is looked up too: heads for each pair of positions, more than its table of 32 buckets has.
    assert cost.weights == 4_762_310_656 - vocabulary + shape["tokens"] * T5["full"]["d_model"]


@pytest.mark.parametrize("preset", ["tiny", "full"])
def test_a_step_of_llama_multiplies_every_weight_once_a_row_and_attends_to_its_cache(preset: str) -> None:
    shape, cost = counted("llasa-decode", preset)
    config, batch, length = LANGUAGE_MODEL[preset], shape["batch"], shape["cache"]
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    shared = hidden * config["num_key_value_heads"] // config["num_attention_heads"]
    matrices = layers * hidden * (2 * hidden + 2 * shared + 3 * config["intermediate_size"])
    head, norms = hidden * config["vocab_size"], (2 * layers + 1) * hidden
    # Rotary embedding multiplies one frequency by one position: two FLOPs for each of half a head's width.
    assert cost.flops == pytest.approx(2 * batch * (matrices + head) + 4 * batch * length * hidden * layers, rel=1e-4)
    assert cost.weights == matrices + head + norms  # the embedding is the head, which is read whole
    kept = 2 * torch.Size(cache_shape(preset, batch, length)).numel()
    assert cost.values == kept + kept / length + batch * config["vocab_size"]
    assert cost.integer_bytes == 8 * (batch + batch)


@pytest.mark.parametrize(("core", "channels"), [("deeplabv3", 21), ("unet", 21), ("bisenetv2", 19)])
def test_masks_move_the_image_once_and_a_value_a_class_and_pixel(core: str, channels: int) -> None:
    shape, cost = counted(core, "tiny")
    assert cost.values == (3 + channels) * shape["batch"] * shape["height"] * shape["width"]
    module = CATALOGUE.cores[core].presets["tiny"].build()
    assert cost.weights == sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("preset", "config"), [("tiny", TINY_JP_EXTRA), ("full", JP_EXTRA)])
def test_the_generator_states_what_its_parts_count(preset: str, config: object) -> None:
    encoder_shape, encoder = counted("sbv2-jp-enc", preset)
    decoder_shape, decoder = counted("sbv2-jp-dec", preset)
    whole = CATALOGUE.cores["sbv2-jp-netg"].presets[preset].shapes[0]
    stated = CATALOGUE.cores["sbv2-jp-netg"].work(whole).cost
    assert stated is not None
    assert stated.weights == encoder.weights + decoder.weights == SPEECH_PARAMETERS[config]
    assert stated.flops == encoder.flops + decoder.flops
    assert encoder.flops == encoder_shape["batch"] * encode_flops(config, encoder_shape["tokens"])
    assert decoder.flops == decoder_shape["batch"] * decode_flops(config, decoder_shape["frames"])


def test_a_whole_picture_is_its_steps_and_one_decoding() -> None:
    shape = CATALOGUE.cores["flux-pipeline"].presets["tiny"].shapes[0]
    _, step = counted("flux-transformer", "tiny")
    _, decoding = counted("flux-vae-decode", "tiny")
    stated = CATALOGUE.cores["flux-pipeline"].work(shape).cost
    assert stated is not None
    assert stated.flops == shape["steps"] * step.flops + decoding.flops
