"""The codec's inputs: WAV files of every width, and the features its semantic encoder reads."""

from __future__ import annotations

import math
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import wavfile

from fixtures.inputs import audio

SINE = 0.5 * np.sin(2 * np.pi * 440.0 * np.arange(4800) / 16_000)


@pytest.mark.parametrize(
    ("samples", "step"),
    [
        ((SINE * 2**7 + 128).round().astype(np.uint8), 2**-7),
        ((SINE * 2**15).round().astype(np.int16), 2**-15),
        ((SINE * 2**31).round().astype(np.int32), 2**-23),
        (SINE.astype(np.float32), 2**-23),
        (SINE, 2**-23),
    ],
    ids=["8 bit", "16 bit", "32 bit", "float", "double"],
)
def test_every_width_is_read_to_its_precision(tmp_path: Path, samples: np.ndarray, step: float) -> None:
    wavfile.write(tmp_path / "a.wav", 16_000, samples)
    found = audio.read_wav(tmp_path / "a.wav")
    assert found.dtype == torch.float32
    assert np.abs(found.numpy() - SINE).max() <= step


def test_24_bits_are_read(tmp_path: Path) -> None:
    whole = (SINE * 2**23).round().astype("<i4")
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 3, 16_000, 0, "NONE", ""))
        file.writeframes(whole.view(np.uint8).reshape(-1, 4)[:, :3].tobytes())
    assert np.abs(audio.read_wav(tmp_path / "a.wav").numpy() - SINE).max() <= 2**-22


def test_channels_are_averaged(tmp_path: Path) -> None:
    wavfile.write(tmp_path / "a.wav", 16_000, np.stack([SINE, 0.2 - SINE], axis=1))
    torch.testing.assert_close(audio.read_wav(tmp_path / "a.wav"), torch.full((4800,), 0.1))


@pytest.mark.parametrize("rate", [8_000, 22_050, 44_100, 48_000])
def test_another_rate_is_brought_to_16_khz(tmp_path: Path, rate: int) -> None:
    """A tone stays that tone (away from the ends, where the filter sees silence)."""
    tone = 0.5 * np.sin(2 * np.pi * 440.0 * np.arange(rate) / rate)
    wavfile.write(tmp_path / "a.wav", rate, tone)
    found = audio.read_wav(tmp_path / "a.wav").numpy()
    expected = 0.5 * np.sin(2 * np.pi * 440.0 * np.arange(16_000) / 16_000)
    assert len(found) == 16_000
    assert np.abs(found - expected)[500:-500].max() < 2e-3


def test_what_is_no_wav_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"ID3\x03 this is not a WAV file at all")
    wavfile.write(tmp_path / "empty.wav", 16_000, np.zeros(0, np.int16))
    for name, problem in (("a.wav", "only WAV is read"), ("gone.wav", "No such file"), ("empty.wav", "0 samples")):
        with pytest.raises(audio.UnreadableAudioError, match=problem) as caught:
            audio.read_wav(tmp_path / name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_recording_is_small_and_as_described() -> None:
    with wave.open(str(audio.SPEECH)) as file:
        assert file.getparams()[:3] == (1, 2, 16_000)
        assert 5.0 < file.getnframes() / 16_000 < 6.0
    assert audio.SPEECH.stat().st_size < 200_000


def test_crops_are_pieces_of_the_recording() -> None:
    with wave.open(str(audio.SPEECH)) as file:
        whole = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 2.0**15
    twice = np.concatenate([whole, whole, whole]).astype(np.float32)
    crops = audio.crops(tokens=400, batch=3, seed=9)
    assert crops.shape == (3, 1, 128_000)
    for crop in crops[:, 0].numpy():
        starts = np.flatnonzero(twice[: len(whole)] == crop[0])
        assert any(np.array_equal(twice[start : start + 128_000], crop) for start in starts)


@pytest.mark.parametrize(("samples", "tokens"), [(1, 1), (319, 1), (320, 2), (321, 2), (16_000, 51)])
def test_padding_as_the_librarys_extractor(samples: int, tokens: int) -> None:
    """transformers' Xcodec2FeatureExtractor adds one zero, then fills up to a multiple of 320."""
    padded = audio.padded(torch.ones(samples))
    assert padded.shape == (1, 1, 320 * tokens)
    assert padded.sum() == samples
    assert bool((padded[0, 0, :samples] == 1).all())


def kaldi_log_mel(samples: np.ndarray, bins: int = 80) -> np.ndarray:
    """Kaldi's fbank by its definition, in float64: [frames, bins]. 25 ms frames each 10 ms of 16-bit amplitudes, their
    mean taken off, pre-emphasis of 0.97, Povey window, 512-point power spectrum, triangles even in mel from 20 Hz to
    8 kHz, natural logarithm.
    """

    def mel(hertz: np.ndarray) -> np.ndarray:
        return 1127.0 * np.log(1.0 + hertz / 700.0)

    starts = range(0, len(samples) - 399, 160)
    frames = np.stack([samples[start : start + 400] for start in starts]) * 2.0**15
    frames = frames - frames.mean(1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    window = (0.5 - 0.5 * np.cos(2 * math.pi * np.arange(400) / 399)) ** 0.85
    power = np.abs(np.fft.rfft((frames - 0.97 * before) * window, 512)) ** 2
    edges = np.linspace(mel(np.array(20.0)), mel(np.array(8000.0)), bins + 2)
    at = mel(np.arange(257) * 16_000 / 512)[:, None]
    rising, falling = (at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.log(np.maximum(power @ np.maximum(0.0, np.minimum(rising, falling)), 1.192092955078125e-07))


def test_features_are_kaldis_normalised_over_time_two_frames_a_token() -> None:
    sound = audio.crops(tokens=30, batch=2, seed=1)
    features = audio.mel_features(sound)
    assert features.shape == (2, 30, 160)
    for row in range(2):
        expected = kaldi_log_mel(np.pad(sound[row, 0].double().numpy(), 160))[:60]
        expected = (expected - expected.mean(0)) / np.sqrt(expected.var(0, ddof=1) + 1e-7)
        np.testing.assert_allclose(features[row].reshape(60, 80).numpy(), expected, atol=2e-3)
