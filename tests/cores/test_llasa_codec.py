"""XCodec2's two directions against transformers' own class, and against the published formulas."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import Wav2Vec2BertConfig, Xcodec2Config, Xcodec2Model

from fixtures.cores import llasa_codec
from fixtures.models.llasa_codec import CodecDecode, CodecEncode, random_decoder, random_encoder
from fixtures.models.llasa_configs import CODEC, SEMANTIC_ENCODER
from perf.contract import Shape

DECODE, ENCODE = llasa_codec.CORES
SHAPE = ENCODE.presets["tiny"].shapes[0]


def config(size: str) -> Xcodec2Config:
    return Xcodec2Config(**CODEC[size], semantic_model_config=Wav2Vec2BertConfig(**SEMANTIC_ENCODER[size]))


@pytest.fixture(scope="module")
def encoder() -> CodecEncode:
    return random_encoder("tiny")


@pytest.fixture(scope="module")
def decoder() -> CodecDecode:
    return random_decoder("tiny")


@pytest.fixture(scope="module")
def whole(encoder: CodecEncode, decoder: CodecDecode) -> Xcodec2Model:
    """The oracle: the library's model, its weights put together from both directions'."""
    model = Xcodec2Model(config("tiny")).eval()
    model.load_state_dict(encoder.state_dict() | decoder.state_dict(), strict=True)
    return model


def test_encoding_is_the_librarys(whole: Xcodec2Model, encoder: CodecEncode) -> None:
    inputs = ENCODE.presets["tiny"].inputs(SHAPE, 5)
    with torch.no_grad():
        codes, _ = encoder(**inputs)
        expected = whole.encode(inputs["audio"], input_features=inputs["features"]).audio_codes
    assert torch.equal(codes, expected)
    assert codes.dtype == torch.int32
    assert len(codes.unique()) > 20


def test_decoding_is_the_librarys(whole: Xcodec2Model, decoder: CodecDecode) -> None:
    inputs = DECODE.presets["tiny"].inputs(SHAPE, 5)
    with torch.no_grad():
        assert torch.equal(decoder(**inputs), whole.decode(audio_codes=inputs["codes"]).audio_values)


def test_levels_round_to_the_codes(encoder: CodecEncode) -> None:
    """Finite scalar quantisation (Mentzer et al. 2023, «FSQ»), four levels a dimension, bounded twice as XCodec2 does:
    the code is the rounded levels, counted from -2, read as a number of base 4, the first digit the least.
    """
    with torch.no_grad():
        codes, levels = encoder(**ENCODE.presets["tiny"].inputs(SHAPE, 6))

    def bound(x: Tensor) -> Tensor:
        half = 3 * 1.001 / 2
        return torch.tanh(x + torch.atanh(torch.tensor(0.5 / half, dtype=torch.float64))) * half - 0.5

    digits = bound(bound(levels.double())).round() + 2
    expected = (digits * torch.tensor([1.0, 4.0, 16.0, 64.0], dtype=torch.float64)).sum(-1)
    assert torch.equal(codes[:, 0].double(), expected)


def test_a_token_is_320_samples(decoder: CodecDecode) -> None:
    with torch.no_grad():
        for tokens in (1, 16, 29):
            assert decoder(torch.zeros(1, 1, tokens, dtype=torch.int64)).shape == (1, 1, 320 * tokens)


def test_codes_move_nothing_far_away(decoder: CodecDecode) -> None:
    """Attention reads everything, so all of the waveform moves; but it moves most where the code stands."""
    codes = DECODE.presets["tiny"].inputs(DECODE.presets["tiny"].shapes[2], 0)["codes"]
    other = codes.clone()
    other[:, :, 40] = (other[:, :, 40] + 77) % 256
    with torch.no_grad():
        moved = (decoder(other) - decoder(codes)).square().mean((0, 1)).unflatten(0, (-1, 320)).mean(1)
    assert 38 <= int(moved.argmax()) <= 42


def test_both_directions_keep_the_librarys_keys(encoder: CodecEncode, decoder: CodecDecode) -> None:
    library = Xcodec2Model(config("tiny")).state_dict().keys()
    one, other = encoder.state_dict().keys(), decoder.state_dict().keys()
    assert one | other == library
    assert one & other == {"quantizer.project_out.weight", "quantizer.project_out.bias"}


def test_work_is_in_seconds_of_sound() -> None:
    assert ENCODE.work(Shape("250 tokens", {"batch": 2, "tokens": 250})).amount == 2 * 250 * 320 / 16_000


def test_the_full_size_is_the_librarys_default() -> None:
    ours, published = config("full").to_dict(), Xcodec2Config().to_dict()
    for name in (*CODEC["full"], "semantic_model_config"):
        expected, found = published[name], ours[name]
        assert list(found) == list(expected) if isinstance(found, tuple | list) else found == expected, name


def test_bfloat16_and_float32_agree_on_most_codes(encoder: CodecEncode) -> None:
    """oneDNN's convolution is wrong in bfloat16 for 8 and 12 channels (torch 2.14.1, Intel AMX): not among ours."""
    inputs = ENCODE.presets["tiny"].inputs(SHAPE, 0)
    half = random_encoder("tiny").bfloat16()
    with torch.no_grad():
        _, expected = encoder(**inputs)
        _, levels = half(**{name: tensor.bfloat16() for name, tensor in inputs.items()})
    assert (levels.float() - expected).square().mean().sqrt() < 0.1


def test_a_saved_codec_loads_to_the_bit(decoder: CodecDecode, tmp_path: Path) -> None:
    decoder.save_pretrained(tmp_path)
    loaded = CodecDecode.from_pretrained(tmp_path, local_files_only=True).eval()
    inputs = DECODE.presets["tiny"].inputs(SHAPE, 1)
    with torch.no_grad():
        assert torch.equal(loaded(**inputs), decoder(**inputs))
