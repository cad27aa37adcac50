"""Text to speech through all of LLASA: the four parts, and what is asked of it that it cannot do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from fixtures.cores.llasa_speak import CORES
from fixtures.models.llasa_speech import LlasaSpeech, random_speech
from fixtures.models.llasa_vocabulary import TINY

CORE = CORES[0]
TEXT = "Gulls at dawn."


@pytest.fixture(scope="module")
def speak() -> LlasaSpeech:
    return random_speech("tiny")


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def test_the_parts_make_the_whole(speak: LlasaSpeech) -> None:
    assert [name for name, _ in speak.parts()] == ["tokenise", "generate", "extract", "waveform"]
    prompt = speak.tokenise(TEXT)
    audio = speak.waveform(speak.extract(speak.generate(prompt)))
    assert torch.equal(audio, speak(TEXT))
    assert audio.shape == (1, 1, 320 * 4 * len(TEXT))
    assert audio.dtype == torch.float32


def test_every_token_is_the_likeliest_that_can_be_spoken(speak: LlasaSpeech) -> None:
    """The oracle: one forward of transformers' over prompt and answer, without a cache."""
    prompt = speak.tokenise(TEXT)
    answer = speak.generate(prompt)
    everything = torch.cat((prompt, answer), dim=1)
    logits = LlamaForCausalLM.forward(speak.lm, input_ids=everything, use_cache=False).logits[0]
    speakable = torch.cat((logits[:, TINY.end, None], logits[:, TINY.speech :]), dim=1)
    choice = speakable.argmax(-1)[prompt.shape[1] - 1 : -1]
    assert torch.equal(answer[0] - TINY.speech + 1, choice)


def test_it_says_various_things(speak: LlasaSpeech) -> None:
    answer = speak.generate(speak.tokenise(TEXT))
    assert answer.shape == (1, 4 * len(TEXT))
    assert len(answer.unique()) > answer.numel() / 3


def test_nothing_is_kept_between_calls(speak: LlasaSpeech) -> None:
    first = speak(TEXT)
    speak("Seven gulls.")
    assert torch.equal(speak(TEXT), first)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_an_empty_text_is_refused(speak: LlasaSpeech, text: str) -> None:
    with pytest.raises(ValueError, match="the text is empty; give LLASA at least one character"):
        speak(text)


def test_a_text_beyond_the_models_length_is_refused(speak: LlasaSpeech) -> None:
    with pytest.raises(
        ValueError, match=r"10000 characters asks for 50053 tokens of 2048: speak it sentence by sentence"
    ):
        speak("a" * 10_000)


def test_the_longest_text_fills_the_length(speak: LlasaSpeech) -> None:
    """53 tokens of frame and five a character: 399 characters make 2,048."""
    assert speak.tokenise("a" * 399).shape == (1, 53 + 399)
    with pytest.raises(ValueError, match="2053 tokens of 2048"):
        speak.tokenise("a" * 400)


@pytest.mark.parametrize("text", ["?!…", "🙂", "1 + 1 = 2", "x"])
def test_symbols_are_spoken(speak: LlasaSpeech, text: str) -> None:
    assert speak(text).shape == (1, 1, 320 * 4 * len(text.encode()))


def scripted(speak: LlasaSpeech, tokens: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model say `tokens`, then code 9 for ever."""
    said = iter(tokens)
    monkeypatch.setattr(speak, "likeliest", lambda logits: torch.tensor([[next(said, TINY.speech + 9)]]))


def test_it_stops_soon_after_the_end(speak: LlasaSpeech, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(speak, [*(TINY.speech + code for code in (5, 6, 7)), TINY.end], monkeypatch)
    answer = speak.generate(speak.tokenise(TEXT * 3))
    assert answer.shape == (1, 32)
    assert speak.extract(answer).tolist() == [[[5, 6, 7]]]


def test_without_an_end_it_stops_at_the_limit(speak: LlasaSpeech, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(speak, [], monkeypatch)
    answer = speak.generate(speak.tokenise(TEXT))
    assert speak.extract(answer).tolist() == [[[9] * (4 * len(TEXT))]]


@pytest.mark.parametrize("tokens", [[TINY.end, TINY.speech], [0, 1, TINY.end], [5, 6, 7]])
def test_an_answer_without_speech_is_an_error(speak: LlasaSpeech, tokens: list[int]) -> None:
    with pytest.raises(ValueError, match=f"no speech among {len(tokens)} tokens"):
        speak.extract(torch.tensor([tokens]))


def test_stated_work_is_the_speech_that_comes(speak: LlasaSpeech) -> None:
    for shape in CORE.presets["tiny"].shapes:
        audio: Tensor = speak(**CORE.presets["tiny"].inputs(shape, 1))
        assert CORE.work(shape).amount == audio.shape[-1] / 16_000
