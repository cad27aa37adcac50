"""VITS's two networks beside transformers' own VitsModel, tokeniser and published size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import VitsConfig, VitsModel, VitsTokenizer
from transformers.models.vits import modeling_vits

from fixtures.cores import vits
from fixtures.inputs import texts
from fixtures.models.sbv2.synthesizer import expand
from fixtures.models.vits import Attention, Decode, Encode
from fixtures.models.vits_configs import ALPHABET, CONFIGS, romanised, rows, tokens
from fixtures.models.vits_weights import random_decoder, random_encoder
from fixtures.weights import WeightsError, load_into
from perf.contract import Core, Inputs, Shape

ENCODE, DECODE = vits.CORES
TINY = VitsConfig(**CONFIGS["tiny"])


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def encoder() -> Encode:
    return random_encoder("tiny")


@pytest.fixture(scope="module")
def decoder() -> Decode:
    return random_decoder("tiny")


@pytest.fixture(scope="module")
def whole(encoder: Encode, decoder: Decode) -> VitsModel:
    """The oracle: the library's model with the two networks' weights; what only training reads is not a number."""
    model = VitsModel(TINY).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.fill_(torch.nan)
    model.load_state_dict(encoder.state_dict() | decoder.state_dict(), strict=False)
    return model


def encoder_inputs(shape: Shape, seed: int) -> Inputs:
    return ENCODE.presets["tiny"].inputs(shape, seed)


def drawn(*size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("shape", vits.SHAPES["tiny"], ids=lambda shape: shape.name)
def test_the_librarys_model_is_encoder_regulator_and_decoder(
    shape: Shape, encoder: Encode, decoder: Decode, whole: VitsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = encoder_inputs(shape, 3)
    means, log_variances, durations = encoder(**inputs)
    counts = durations[:, 0].ceil().long()
    frames = int(counts.sum(1).max())
    means, log_variances, mask = expand(means, log_variances, counts, frames)
    noise = drawn(shape["batch"], TINY.flow_size, frames)
    sound = decoder(means, log_variances, noise, mask)

    monkeypatch.setattr(modeling_vits.torch, "randn", lambda *size: inputs["duration_noise"])
    monkeypatch.setattr(modeling_vits.torch, "randn_like", lambda like: noise)
    expected = whole(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    assert expected.sequence_lengths.tolist() == (32 * counts.sum(1)).tolist()
    assert float(sound.std()) > 0.1
    torch.testing.assert_close(sound, expected.waveform, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_terms_by_offset_are_shifted_to_their_positions(length: int) -> None:
    terms = drawn(3, length, 2 * length - 1)
    placed = Attention(TINY)._relative_position_to_absolute_position(terms)
    for row in range(length):
        for column in range(length):
            assert torch.equal(placed[:, row, column], terms[:, row, column - row + length - 1])


def test_encoding_does_not_hear_the_padding(encoder: Encode) -> None:
    inputs = encoder_inputs(vits.SHAPES["tiny"][0], 3)
    length = int(inputs["attention_mask"][1].sum())
    alone = encoder(**{name: value[1:, ..., :length] for name, value in inputs.items()})
    for got, expected in zip(encoder(**inputs), alone, strict=True):
        torch.testing.assert_close(got[1:, :, :length], expected, rtol=5e-5, atol=1e-5)  # splines and an exponential
        assert got[1, :, length:].abs().sum() == 0


def test_both_networks_keep_the_librarys_keys_but_those_of_training(encoder: Encode, decoder: Decode) -> None:
    library, one, other = VitsModel(TINY).state_dict().keys(), encoder.state_dict().keys(), decoder.state_dict().keys()
    assert not one & other
    assert one | other < library
    left_out = {".".join(key.split(".")[:2]) for key in library - one - other if not key.startswith("posterior_")}
    post = {f"duration_predictor.post_{part}" for part in ("conv_pre", "conv_proj", "conv_dds", "flows")}
    assert left_out == {"duration_predictor.flows", *post}
    assert {key.split(".")[2] for key in library - one - other if ".flows." in key and "post" not in key} == {"1"}


@pytest.mark.parametrize(("core", "kind"), [(ENCODE, Encode), (DECODE, Decode)])
def test_a_published_folder_loads_into_both(
    core: Core, kind: type[VitsModel], encoder: Encode, decoder: Decode, tmp_path: Path
) -> None:
    """As published: the whole model, here with the fixtures' own weights under other draws."""
    torch.manual_seed(1)
    published = VitsModel(TINY)
    published.load_state_dict(encoder.state_dict() | decoder.state_dict(), strict=False)
    published.save_pretrained(tmp_path)
    module = kind(TINY).eval()
    load_into(module, tmp_path)
    preset = core.presets["tiny"]
    inputs = preset.inputs(preset.shapes[1], 0)
    for got, expected in zip(module(**inputs), preset.build()(**inputs), strict=True):
        assert torch.equal(got, expected)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    torch.save({"conv_pre.weight": torch.ones(2)}, tmp_path / "other.pt")
    with pytest.raises(WeightsError, match=r"missing keys: flow\.flows\.0.*unknown keys: conv_pre\.weight"):
        load_into(Decode(TINY), tmp_path / "other.pt")


def test_the_full_size_is_the_published_one() -> None:
    """36.3 M parameters, the text encoder's counted by hand; the networks have all but what only training reads."""
    full = VitsConfig(**CONFIGS["full"])
    assert full.to_dict() == VitsConfig().to_dict()
    assert {32: TINY.flow_size, 256: full.flow_size} == vits.WIDTHS
    with torch.device("meta"):
        model, parts = VitsModel(full), (Encode(full), Decode(full))
    attention, window, norms = 4 * (192 * 192 + 192), 2 * 9 * 96, 2 * 2 * 192
    feed_forward = 3 * 192 * 768 + 768 + 3 * 768 * 192 + 192
    assert parameters(model.text_encoder) == (
        38 * 192 + 6 * (attention + window + norms + feed_forward) + 192 * 384 + 384
    )
    assert parameters(model) == 36_284_592
    unread = [model.posterior_encoder, model.duration_predictor.flows[1]]
    unread += [part for name, part in model.duration_predictor.named_children() if name.startswith("post_")]
    assert sum(map(parameters, parts)) == 36_284_592 - sum(map(parameters, unread))


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_work_is_in_seconds_of_sound() -> None:
    shape = Shape("worked", {"batch": 2, "frames": 250, "hop": 32})
    assert ENCODE.work(shape).amount == DECODE.work(shape).amount == 2 * 250 * 32 / 16_000


def test_characters_are_numbered_as_the_librarys_tokeniser_does(tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocab.json"
    vocabulary.write_text(json.dumps({character: index for index, character in enumerate(ALPHABET)}))
    library = VitsTokenizer(str(vocabulary), pad_token="_", unk_token="_", phonemize=False)
    assert len(ALPHABET) == VitsConfig().vocab_size == 38
    for characters in texts.JAPANESE_PHONEMES:
        text = romanised(characters)
        assert tokens(text).tolist() == library(text)["input_ids"]


def test_sentences_are_read_in_roman_letters() -> None:
    assert romanised(3) == "hai"
    assert romanised(12) == "kyoowakazegasukoshitsuyoidesu"
    assert "katteka" in romanised(34)  # 買ってか, its doubled consonant a q among the phonemes
    assert [len(row) for row in rows(12, 2)] == [2 * 29 + 1, 2 * 21 + 1]
    with pytest.raises(ValueError, match="substring not found"):
        tokens("日")


def test_a_token_is_held_for_all_its_frames() -> None:
    shape = vits.SHAPES["tiny"][0]
    inputs = DECODE.presets["tiny"].inputs(shape, 0)
    assert inputs["mask"].sum((1, 2)).tolist() == [118, 88]
    for name in ("means", "log_variances"):
        assert torch.equal(inputs[name][0, :, 0::2], inputs[name][0, :, 1::2])
        assert inputs[name][1, :, 88:].abs().sum() == 0


def test_the_decoder_is_one_graph_and_not_with_the_librarys_gate(decoder: Decode) -> None:
    """The day that this fails, the library slices by a number, and `WaveNet` can go."""
    shape = vits.SHAPES["tiny"][0]
    inputs = DECODE.presets["tiny"].inputs(shape, 0)
    theirs = Decode(TINY).eval()
    for coupling in theirs.flow.flows:
        coupling.wavenet = modeling_vits.VitsWaveNet(TINY, TINY.prior_encoder_num_wavenet_layers).eval()
    breaks = []
    for module in (decoder, theirs):
        torch._dynamo.reset()
        breaks.append(torch._dynamo.explain(module)(**inputs).graph_break_count)
    assert breaks[0] == 0
    assert breaks[1] > 0
