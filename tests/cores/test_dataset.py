"""Recordings and transcripts to JSON lines of codec tokens (S4b), from the command's arguments to the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import wavfile

from fixtures import dataset
from fixtures.inputs import audio
from fixtures.models.llasa_codec import CodecEncode, random_encoder
from fixtures.models.llasa_lm import Llasa, random_lm

ROOT = Path(__file__).parents[2]
SECONDS = {"one": 0.5, "two": 0.32, "three": 0.211}


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that codes are equal to the last one: another device rounds otherwise."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Three pieces of speech, of 8,000, 5,120 and 3,376 samples."""
    folder = tmp_path / "wavs"
    folder.mkdir()
    speech = audio.read_wav(audio.SPEECH).numpy()
    for place, (name, seconds) in enumerate(SECONDS.items()):
        start = 16_000 * (place + 1)
        wavfile.write(folder / f"{name}.wav", 16_000, speech[start : start + int(16_000 * seconds)])
    return folder


def run(recordings: Path, transcripts: str, *more: str, codec: str = "tiny") -> tuple[int, Path]:
    """The command on `transcripts`; its exit code and the file it was to write."""
    table, out = recordings.parent / "metadata.csv", recordings.parent / "tokens.jsonl"
    table.write_text(transcripts, encoding="utf-8")
    where = ["--audio", str(recordings), "--transcripts", str(table), "--codec", codec, "--out", str(out)]
    return dataset.main([*where, *more]), out


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_folder_becomes_json_lines(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(recordings, "two|Zwei Möwen.\n\none.wav|raw|A boat, leaving.\n")
    lines = read(out)
    assert code == 0
    assert [(line["audio"], line["text"], line["seconds"]) for line in lines] == [
        ("two.wav", "Zwei Möwen.", 0.32),
        ("one.wav", "A boat, leaving.", 0.5),
    ]
    assert [len(line["codes"]) for line in lines] == [5120 // 320 + 1, 8000 // 320 + 1]
    assert "2 recordings" in capsys.readouterr().out


def test_codes_are_the_encoders(recordings: Path) -> None:
    _, out = run(recordings, "three\tThree seconds\n")
    samples = torch.from_numpy(wavfile.read(recordings / "three.wav")[1])
    sound = torch.nn.functional.pad(samples, (0, 11 * 320 - 3376))[None, None]
    with torch.no_grad():
        expected = random_encoder("tiny")(sound, audio.mel_features(sound))[0]
    assert read(out)[0]["codes"] == expected.flatten().tolist()


def test_bf16_changes_some_codes_and_not_most(recordings: Path) -> None:
    transcripts = "one|1\ntwo|2\nthree|3\n"
    exact = np.array(codes_of(run(recordings, transcripts)[1]))
    half = np.array(codes_of(run(recordings, transcripts, "--bf16")[1]))
    assert exact.shape == half.shape
    assert 0.5 < (exact == half).mean() < 1.0


def codes_of(path: Path) -> list[int]:
    return [code for line in read(path) for code in line["codes"]]  # type: ignore[attr-defined]


def test_bf16_is_float16_on_a_card_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset.devices, "capability", lambda: (7, 0))
    assert next(dataset.load_encoder("tiny", bf16=True).parameters()).dtype == torch.float16
    assert next(dataset.load_encoder("tiny", bf16=False).parameters()).dtype == torch.float32


def test_recordings_without_transcript_are_named(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(recordings, "two|2\n")
    assert "without transcript: one.wav, three.wav" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("transcripts", "complaint"),
    [
        ("four|4\n", "metadata.csv:1: no recording four.wav"),
        ("one|1\n../secret|2\n", "metadata.csv:2: no recording secret.wav"),
        ("one without a bar\n", "'one without a bar' is no transcript; expected name|text"),
        ("one|  \n", "expected name|text"),
        ("|text\n", "expected name|text"),
        ("one|1\none.wav|2\n", "one.wav comes more than once"),
        ("\n \n", "no line with a transcript"),
        ("", "no line with a transcript"),
    ],
)
def test_transcripts_that_do_not_fit(
    recordings: Path, capsys: pytest.CaptureFixture[str], transcripts: str, complaint: str
) -> None:
    (recordings.parent / "secret.wav").write_bytes(b"")
    code, out = run(recordings, transcripts)
    error = capsys.readouterr().err
    assert code == 4
    assert complaint in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_broken_recording_leaves_no_half_dataset(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (recordings / "two.wav").write_bytes(b"RIFF, so it says")
    code, out = run(recordings, "one|1\ntwo|2\n")
    assert code == 4
    assert "two.wav" in capsys.readouterr().err
    assert sorted(path.name for path in out.parent.iterdir()) == ["metadata.csv", "wavs"]


def test_a_broken_recording_keeps_the_dataset_there_was(recordings: Path) -> None:
    _, out = run(recordings, "one|1\n")
    before = out.read_bytes()
    (recordings / "two.wav").write_bytes(b"")
    assert run(recordings, "two|2\n")[0] == 4
    assert out.read_bytes() == before


def test_a_missing_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = run(tmp_path / "nowhere", "one|1\n")
    assert code == 4
    assert "nowhere: no such folder of recordings" in capsys.readouterr().err


def test_a_codec_from_a_folder(recordings: Path, tmp_path: Path) -> None:
    encoder = random_encoder("tiny")
    with torch.no_grad():
        encoder.fc_encoder.bias.add_(0.7)
    encoder.save_pretrained(tmp_path / "codec")
    _, out = run(recordings, "one|1\n", codec=str(tmp_path / "codec"))
    expected = dataset.encode(encoder, audio.read_wav(recordings / "one.wav"))
    assert read(out)[0]["codes"] == expected
    assert expected != dataset.encode(random_encoder("tiny"), audio.read_wav(recordings / "one.wav"))


@pytest.mark.parametrize("kind", ["nothing", "llama", "lacking"])
def test_another_models_folder_is_refused(
    kind: str, recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "codec"
    folder.mkdir()
    if kind == "llama":
        random_lm(Llasa, "tiny").save_pretrained(folder)
    if kind == "lacking":
        encoder: CodecEncode = random_encoder("tiny")
        weights = {name: tensor for name, tensor in encoder.state_dict().items() if "fc_encoder" not in name}
        encoder.save_pretrained(folder, state_dict=weights)
    code, out = run(recordings, "one|1\n", codec=str(folder))
    found = capsys.readouterr().err.splitlines()[-1]
    assert code == 4
    assert ("lacks 2 weights, fc_encoder.bias among them" if kind == "lacking" else f"codec holds {kind};") in found
    assert not out.exists()


def test_it_runs_as_a_module(recordings: Path) -> None:
    table, out = recordings.parent / "metadata.csv", recordings.parent / "tokens.jsonl"
    table.write_text("two|2\n", encoding="utf-8")
    where = ["--audio", str(recordings), "--transcripts", str(table), "--codec", "tiny", "--out", str(out)]
    subprocess.run([sys.executable, "-m", "fixtures.dataset", *where], cwd=ROOT, check=True, capture_output=True)
    assert len(read(out)) == 1
