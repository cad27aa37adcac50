"""Style-Bert-VITS2 around the network: text in, sound out, what it costs, how it compiles and exports."""

from __future__ import annotations

import io
import math
import warnings
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.utils.flop_counter import FlopCounterMode

from fixtures.cores.style_bert_vits2 import CORES
from fixtures.inputs import texts
from fixtures.models.sbv2.config import TINY_JP_EXTRA, TINY_MULTILINGUAL, Config
from fixtures.models.sbv2.cost import decode_flops, encode_flops
from fixtures.models.sbv2.examples import decoder_inputs, encoder_inputs, sentence_shape
from fixtures.models.sbv2.initialise import randomise
from fixtures.models.sbv2.pipeline import Pipeline, wav
from fixtures.models.sbv2.symbols import IDS
from fixtures.models.sbv2.synthesizer import Decode, EncodeJapanese, EncodeMultilingual
from fixtures.models.sbv2.text import check, phonemes, tokens
from fixtures.models.sbv2.weight_norm import fold_weight_norm
from fixtures.tasks_audio import mel_distance, mel_similarity

BY_NAME = {core.name: core for core in CORES}
NEEDS_DICTIONARY = "pip install pyopenjtalk-plus"


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def spoken(text: str) -> str:
    pytest.importorskip("pyopenjtalk", reason=NEEDS_DICTIONARY)
    return " ".join(f"{symbol}{tone}" for symbol, tone in phonemes(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("箸が", "h1 a1 sh0 i0 g0 a0"),  # accent on the first mora: high, then low
        ("橋が", "h0 a0 sh1 i1 g0 a0"),  # on the second
        ("桜が", "s0 a0 k1 u1 r1 a1 g1 a1"),  # none: low, then high throughout
        ("切手、コーヒー?", "k0 i0 q1 t1 e1 ,0 k0 o0 o1 h1 i1 i0 ?0"),
    ],
)
def test_pitch_follows_the_accent_of_tokyo(text: str, expected: str) -> None:
    assert spoken(text) == expected


@pytest.mark.parametrize("characters", [3, 12, 34, 92, 273])
def test_sentences_have_their_length_and_the_phonemes_the_front_end_gives(characters: int) -> None:
    text = texts.JAPANESE[characters]
    assert len(text) == characters
    assert spoken(text) == texts.JAPANESE_PHONEMES[characters]


def test_blanks_stand_between_and_around_all_tokens() -> None:
    row = tokens([("h", 1), ("a", 1), (".", 0)], "JP")
    assert row.phonemes.tolist() == [0, 0, 0, IDS["h"], 0, IDS["a"], 0, IDS["."], 0, 0, 0]
    assert row.tones.tolist() == [0, 6, 0, 7, 0, 7, 0, 6, 0, 6, 0]
    assert row.languages.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]


def test_foreign_phonemes_are_in_the_table_with_tones_of_their_language() -> None:
    first = tokens([(item[:-1], int(item[-1])) for item in texts.ENGLISH_PHONEMES[34].split()], "EN")
    assert set(first.tones[3:-3:2].tolist()) <= {8, 9, 10, 11}
    second = tokens([(item[:-1], int(item[-1])) for item in texts.CHINESE_PHONEMES[34].split()], "ZH")
    assert set(second.tones.tolist()) <= {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the text is empty: give 1 to 512 characters"),
        (" \n\t", "the text is empty"),
        ("…!?", "'…!?' is only symbols: give at least one letter, kana, kanji or digit"),
        ("♪" * 40, "is only symbols"),
        ("あ" * 10_000, "the text has 10000 characters, at most 512 are spoken at once: split it up"),
    ],
)
def test_text_that_cannot_be_spoken_is_refused_in_one_line(text: str, expected: str) -> None:
    pipeline = randomise(Pipeline(TINY_JP_EXTRA), TINY_JP_EXTRA)
    with pytest.raises(ValueError, match="text") as caught:
        pipeline(text=text, style=torch.zeros(1, 256), speaker=torch.tensor([0]), noise_seed=0)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120


def test_letters_that_no_dictionary_reads_are_refused() -> None:
    pytest.importorskip("pyopenjtalk", reason=NEEDS_DICTIONARY)
    check("ا")
    with pytest.raises(ValueError, match="nothing in 'ا' can be read aloud"):
        phonemes("ا")


def test_the_pipeline_writes_a_wav_file_of_the_speech_alone() -> None:
    pytest.importorskip("pyopenjtalk", reason=NEEDS_DICTIONARY)
    preset = BY_NAME["sbv2-pipeline"].presets["tiny"]
    pipeline, inputs = preset.build(), preset.inputs(preset.shapes[1], 4)
    audio = pipeline(**inputs)
    with wave.open(io.BytesIO(pipeline.wav)) as file:  # type: ignore[arg-type]
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 44_100)
        count = file.getnframes()
        samples = np.frombuffer(file.readframes(count), "<i2")
    assert count % TINY_JP_EXTRA.hop == 0
    assert 0 < count < audio.shape[2]
    assert audio[0, 0, count:].abs().sum() == 0
    assert np.abs(samples / 32767 - audio[0, 0, :count].numpy()).max() <= 0.5 / 32767 + 1e-6


def test_wav_clips_what_is_too_loud() -> None:
    with wave.open(io.BytesIO(wav(torch.tensor([-2.0, -0.5, 0.0, 1.5]), 8000))) as file:
        assert np.frombuffer(file.readframes(4), "<i2").tolist() == [-32767, -16384, 0, 32767]


def parts(config: Config, batch: int) -> list[tuple[nn.Module, dict[str, Tensor], int]]:
    shape = sentence_shape(config, 3, batch)
    encode = EncodeJapanese if len(config.bert_projections) == 1 else EncodeMultilingual
    return [
        (encode(config), encoder_inputs(config, shape, 0), encode_flops(config, shape["tokens"])),
        (fold_weight_norm(Decode(config)), decoder_inputs(config, shape, 0), decode_flops(config, shape["frames"])),
    ]


@pytest.mark.parametrize(("config", "batch"), [(TINY_JP_EXTRA, 2), (TINY_MULTILINGUAL, 3)])
def test_flops_are_those_torch_counts(config: Config, batch: int) -> None:
    for module, inputs, flops in parts(config, batch):
        with FlopCounterMode(display=False) as counter:
            module(**inputs)
        assert counter.get_total_flops() == batch * flops


@pytest.mark.parametrize("name", ["sbv2-jp-enc", "sbv2-jp-dec"])
def test_one_graph_serves_all_lengths(name: str) -> None:
    torch._dynamo.reset()
    preset, graphs = BY_NAME[name].presets["tiny"], CompileCounter()
    compiled = torch.compile(preset.build(), backend=graphs, fullgraph=True, dynamic=True)
    for shape in preset.shapes:
        compiled(**preset.inputs(shape, 0))
    torch._dynamo.reset()
    assert graphs.frame_count == 1


@pytest.mark.parametrize("name", ["sbv2-jp-enc", "sbv2-jp-dec"])
def test_the_legacy_exporter_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="pip install onnx")
    runtime: Any = pytest.importorskip("onnxruntime", reason="pip install onnxruntime-gpu")
    core, path = BY_NAME[name], tmp_path / "model.onnx"
    preset = core.presets["tiny"]
    module, example = preset.build(), preset.inputs(preset.shapes[0], 0)
    axes = {name: {index: axis.symbol for index, axis in found.items()} for name, found in core.dynamic.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(example.values()),
            path,
            dynamo=False,
            opset_version=17,
            input_names=list(example),
            output_names=list(core.outputs),
            dynamic_axes=axes,
        )
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in preset.shapes[:3]:
        inputs = preset.inputs(shape, 1)
        expected = module(**inputs)
        got = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        for ours, theirs in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert np.abs(ours - theirs.numpy()).max() <= 5e-5


def test_mel_similarity_is_in_decibels() -> None:
    """Noise has no silent cell, so half the amplitude is 20 · log10(2) = 6.02 dB off in every one of them."""
    sound = torch.randn(2, 1, 20_000, generator=torch.Generator().manual_seed(0))
    assert mel_similarity((sound,), (sound.clone(),)) == 1.0
    assert mel_distance(sound, sound / 2) == pytest.approx(20 * math.log10(2), abs=1e-6)
    assert mel_similarity((sound,), (sound / 2,)) == pytest.approx(1 - math.log10(2), abs=1e-6)
    assert mel_similarity((sound,), (sound / 1000,)) == 0.0


def test_mel_similarity_of_broken_sound() -> None:
    sound = torch.sin(torch.arange(4000.0) / 10)
    assert mel_similarity((sound,), (sound * math.nan,)) == 0.0
    assert mel_similarity((sound,), (sound * 0,)) < 0.9
    with pytest.raises(ValueError, match=r"audio of shape \(3999,\) beside \(4000,\)"):
        mel_similarity((sound,), (sound[1:],))
