"""Our generator beside the original: same weights, same noise, same audio.

The original (PyPI's style-bert-vits2, AGPL-3.0) is needed by these tests alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fixtures.models.sbv2 import symbols
from fixtures.models.sbv2.config import JP_EXTRA, MULTILINGUAL, TINY_JP_EXTRA, TINY_MULTILINGUAL, Config, bucket
from fixtures.models.sbv2.examples import encoder_inputs, sentence_shape
from fixtures.models.sbv2.initialise import randomise
from fixtures.models.sbv2.synthesizer import Decode, EncodeMultilingual, Generator, regulate

ABSENT = "the text-to-speech oracle is absent: pip install style-bert-vits2==2.5.0"
japanese: Any = pytest.importorskip("style_bert_vits2.models.models_jp_extra", reason=ABSENT)
multilingual: Any = pytest.importorskip("style_bert_vits2.models.models", reason=ABSENT)

CONFIGS = {
    "jp-extra": JP_EXTRA,
    "multilingual": MULTILINGUAL,
    "tiny jp-extra": replace(TINY_JP_EXTRA, resblock_dilations=(1, 3, 5)),  # the original has three, always
    "tiny multilingual": replace(TINY_MULTILINGUAL, resblock_dilations=(1, 3, 5)),
}


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


class Parts(nn.Module):
    """The multilingual generator as it is served: two parts, whose keys together are a checkpoint's."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.encode = randomise(EncodeMultilingual(config), config)
        self.decode = randomise(Decode(config), config)

    def forward(self, noise: Tensor, **inputs: Tensor) -> Tensor:
        m, logs, durations, g = self.encode(**inputs)
        m, logs, mask = regulate(m, logs, durations, noise.shape[1])
        audio: Tensor = self.decode(m, logs, noise[:, : m.shape[2]], mask, g)
        return audio


def ours(config: Config) -> nn.Module:
    return randomise(Generator(config), config) if len(config.bert_projections) == 1 else Parts(config)


def weights(generator: nn.Module) -> dict[str, Tensor]:
    """Its state under a checkpoint's keys."""
    parts = (generator.encode, generator.decode) if isinstance(generator, Parts) else (generator,)
    return {key: value for part in parts for key, value in part.state_dict().items()}


def original(config: Config) -> nn.Module:
    models = japanese if len(config.bert_projections) == 1 else multilingual
    net: nn.Module = models.SynthesizerTrn(
        n_vocab=config.symbols,
        spec_channels=1025,
        segment_size=32,
        inter_channels=config.inter,
        hidden_channels=config.hidden,
        filter_channels=config.filter,
        n_heads=config.heads,
        n_layers=config.layers,
        kernel_size=config.kernel,
        p_dropout=0.1,
        resblock="1",
        resblock_kernel_sizes=list(config.resblock_kernels),
        resblock_dilation_sizes=[list(config.resblock_dilations)] * len(config.resblock_kernels),
        upsample_rates=list(config.upsample_rates),
        upsample_initial_channel=config.upsample_channels,
        upsample_kernel_sizes=list(config.upsample_kernels),
        n_speakers=config.speakers,
        gin_channels=config.gin,
        n_flow_layer=config.couplings,
        n_layers_trans_flow=config.coupling_layers,
    )
    return net.eval()


@dataclass(frozen=True)
class Spoken:
    """What the original said, and the noise it drew for that: [1, 2, T] and [1, F, inter]."""

    audio: Tensor
    duration_noise: Tensor
    noise: Tensor


def speak(net: Any, config: Config, inputs: dict[str, Tensor], seed: int) -> Spoken:
    """The original's `infer`, and then its draws again, in its order and layout."""
    features = [inputs[name] for name in ("bert", "ja_bert", "en_bert") if name in inputs]
    torch.manual_seed(seed)
    audio = net.infer(
        inputs["phonemes"],
        inputs["lengths"],
        inputs["speaker"],
        inputs["tones"],
        inputs["languages"],
        *features,
        inputs["style"],
        noise_scale=config.noise_scale,
        length_scale=config.length_scale,
        noise_scale_w=config.duration_noise_scale,
        sdp_ratio=config.sdp_ratio,
    )[0]
    frames, count = audio.shape[2] // config.hop, inputs["phonemes"].shape[1]
    torch.manual_seed(seed)
    duration_noise = torch.randn(1, 2, count)
    transposed = torch.empty(1, frames, config.inter).transpose(1, 2)
    return Spoken(audio, duration_noise, torch.randn_like(transposed).transpose(1, 2))


def sentence(config: Config, characters: int, row: int, seed: int) -> dict[str, Tensor]:
    """One row of a core's inputs, cut to its own length: the original knows no padding."""
    batch = 2 if len(config.bert_projections) == 1 else 3
    inputs = encoder_inputs(config, sentence_shape(config, characters, batch), seed)
    length = int(inputs["lengths"][row])
    rows = {name: value[row : row + 1] for name, value in inputs.items() if name != "duration_noise"}
    along = {"phonemes": 1, "tones": 1, "languages": 1, "bert": 2, "ja_bert": 2, "en_bert": 2}
    return {name: value.narrow(along[name], 0, length) if name in along else value for name, value in rows.items()}


def widened(inputs: dict[str, Tensor], said: Spoken, length: int, frames: int) -> dict[str, Tensor]:
    """The same sentence padded: zeros behind the tokens, anything behind the noise."""
    space = length - inputs["phonemes"].shape[1]
    wide = {"phonemes", "tones", "languages", "bert", "ja_bert", "en_bert"}
    padded = {name: nn.functional.pad(value, (0, space)) if name in wide else value for name, value in inputs.items()}
    rest = torch.full((1, frames - said.noise.shape[1], said.noise.shape[2]), 3.0)
    noise = torch.cat((said.noise, rest), dim=1)
    return {**padded, "duration_noise": nn.functional.pad(said.duration_noise, (0, space)), "noise": noise}


def assert_same_audio(config: Config, characters: int, row: int, seed: int) -> None:
    generator, oracle = ours(config), original(config)
    missing, unexpected = oracle.load_state_dict(weights(generator), strict=False)
    assert unexpected == []
    assert all(name.startswith("enc_q.") for name in missing)
    inputs = sentence(config, characters, row, seed)
    said = speak(oracle, config, inputs, seed)
    count, samples = inputs["phonemes"].shape[1], said.audio.shape[2]
    frames = samples // config.hop
    assert said.audio.std() > 0.1
    for length, room in ((count, frames), (bucket(count), 2 * bucket(frames))):
        audio = generator(**widened(inputs, said, length, room))
        assert (audio[..., :samples] - said.audio).abs().max() <= 1e-5
        assert audio[..., samples:].abs().sum() == 0


@pytest.mark.parametrize("name", ["tiny jp-extra", "tiny multilingual"])
@pytest.mark.parametrize(("characters", "row"), [(12, 0), (34, 1), (3, 1)])
def test_tiny_generators_say_what_the_original_says(name: str, characters: int, row: int) -> None:
    for seed in (0, 1):
        assert_same_audio(CONFIGS[name], characters, row, seed)


@pytest.mark.parametrize("name", ["jp-extra", "multilingual"])
def test_published_generators_say_what_the_original_says(name: str) -> None:
    assert_same_audio(CONFIGS[name], characters=3, row=0, seed=0)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_keys_and_shapes_are_the_checkpoints(name: str) -> None:
    config = CONFIGS[name]
    with torch.device("meta"):
        theirs = original(config).state_dict()
    expected = {key: tuple(value.shape) for key, value in theirs.items() if not key.startswith("enc_q.")}
    assert {key: tuple(value.shape) for key, value in weights(ours(config)).items()} == expected


def test_the_published_japanese_generator_has_its_size() -> None:
    """73.25 M parameters, of which the posterior encoder's 10.49 M are for training."""
    one_speaker = replace(JP_EXTRA, speakers=1)
    assert sum(value.numel() for value in original(one_speaker).parameters()) == 73_250_993
    assert sum(value.numel() for value in Generator(one_speaker).parameters()) == 73_250_993 - 10_494_336


def test_the_token_table_is_the_originals() -> None:
    theirs: Any = pytest.importorskip("style_bert_vits2.nlp.symbols", reason=ABSENT)
    assert list(symbols.SYMBOLS) == theirs.SYMBOLS
    assert theirs.LANGUAGE_ID_MAP == symbols.LANGUAGES
    assert theirs.LANGUAGE_TONE_START_MAP == symbols.FIRST_TONE
