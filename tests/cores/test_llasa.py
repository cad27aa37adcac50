"""LLASA's cores against transformers' own classes, against hand-made cases, and with bad input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from fixtures import devices
from fixtures.cores import llasa
from fixtures.models import llasa_prompts
from fixtures.models.llasa_configs import LANGUAGE_MODEL, cache_shape
from fixtures.models.llasa_lm import KEPT, Llasa, LlasaDecode, LlasaPrefill, random_lm
from fixtures.models.llasa_vocabulary import PROMPT, PUBLISHED, TINY, byte_tokenizer

ROOT = Path(__file__).parents[2]
LAYERS, _, HEADS, _, WIDTH = cache_shape("tiny", 1, 1)


@pytest.fixture(scope="module")
def lm() -> Llasa:
    return random_lm(Llasa, "tiny")


def whole_logits(model: LlamaForCausalLM, tokens: Tensor) -> Tensor:
    """The oracle: transformers' forward over all tokens, without any cache."""
    with torch.no_grad():
        logits: Tensor = LlamaForCausalLM.forward(model, input_ids=tokens, use_cache=False).logits
    return logits


def some_tokens(batch: int, length: int) -> Tensor:
    return torch.randint(TINY.size, (batch, length), generator=torch.Generator().manual_seed(7))


def test_published_token_numbers() -> None:
    assert PUBLISHED.size == 193_800
    assert PUBLISHED.end == 128_261
    assert PUBLISHED.speech == 128_264
    assert PUBLISHED.markers["<|begin_of_text|>"] == 128_000
    assert PUBLISHED.markers["<|eot_id|>"] == 128_009
    assert PUBLISHED.markers["<|SPEECH_GENERATION_START|>"] == 128_260


def test_the_tokenizer_gives_llama_3s_bytes_and_markers() -> None:
    ids = byte_tokenizer(PUBLISHED).encode("<|eot_id|>!A é\n").ids
    assert ids == [128_009, 0, 32, 220, 127, 102, 198]
    assert byte_tokenizer(TINY).encode("!<|eot_id|>").ids == [0, 256 + 9]


def test_a_prompt_decodes_to_itself() -> None:
    tokenizer = byte_tokenizer(TINY)
    prompt = PROMPT.format(text='Say "ünïcödé", 東京!')
    assert tokenizer.decode(tokenizer.encode(prompt).ids, skip_special_tokens=False) == prompt


def test_prompts_have_their_length_and_hold_other_texts() -> None:
    prompts = llasa_prompts.prompts(TINY, batch=3, length=97, seed=4)
    assert prompts.shape == (3, 97)
    assert len({tuple(row) for row in prompts.tolist()}) == 3
    assert set(prompts[:, 0].tolist()) == {TINY.markers["<|begin_of_text|>"]}
    assert set(prompts[:, -1].tolist()) == {TINY.markers["<|SPEECH_GENERATION_START|>"]}


def test_a_prompt_shorter_than_its_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="its frame alone takes 53; ask for 55 or more"):
        llasa_prompts.prompts(TINY, batch=2, length=54, seed=0)


@pytest.mark.parametrize("characters", [2, 3, 92, 1000])
def test_a_text_has_as_many_characters_as_asked(characters: int) -> None:
    text = llasa_prompts.text(characters, seed=5)
    assert len(text) == characters
    assert text.isascii()
    assert text != llasa_prompts.text(characters, seed=6)


def test_prefill_is_transformers_forward(lm: Llasa) -> None:
    tokens = some_tokens(2, 71)
    with torch.no_grad():
        logits, key, value = lm.prefill(tokens)
    assert torch.equal(logits, whole_logits(lm, tokens)[:, -KEPT:])
    assert key.shape == value.shape == (LAYERS, 2, HEADS, 71, WIDTH)


def test_a_step_continues_a_prefill_wherever_each_row_stands(lm: Llasa) -> None:
    tokens, filled = some_tokens(2, 90), [50, 77]
    expected = whole_logits(lm, tokens)
    with torch.no_grad():
        _, key, value = lm.prefill(tokens)
        token = torch.stack([tokens[row, n] for row, n in enumerate(filled)])[:, None]
        logits, step_key, step_value = lm.decode(token, torch.tensor(filled), key, value)
    for row, n in enumerate(filled):
        torch.testing.assert_close(logits[row], expected[row, n], rtol=0, atol=2e-5)
        torch.testing.assert_close(step_key[:, row], key[:, row, :, n], rtol=0, atol=2e-5)
        torch.testing.assert_close(step_value[:, row], value[:, row, :, n], rtol=0, atol=2e-5)


def test_a_step_does_not_read_past_its_position(lm: Llasa) -> None:
    inputs = dict(llasa.CORES[1].presets["tiny"].inputs(llasa.CORES[1].presets["tiny"].shapes[1], 3))
    with torch.no_grad():
        before = lm.decode(**inputs)[0]
        for row, n in enumerate(inputs["position"].tolist()):
            inputs["key"][:, row, :, n:] = 9.0
            inputs["value"][:, row, :, n:] = -9.0
        assert torch.equal(lm.decode(**inputs)[0], before)
        inputs["value"][:, 0, :, 0] = -9.0
        assert not torch.equal(lm.decode(**inputs)[0][0], before[0])


def test_nothing_leaks_from_one_step_into_the_next(lm: Llasa) -> None:
    preset = llasa.CORES[1].presets["tiny"]
    one, other = (preset.inputs(shape, 1) for shape in preset.shapes[:2])
    kept = {name: tensor.clone() for name, tensor in one.items()}
    with torch.no_grad():
        first = lm.decode(**one)
        lm.decode(**other)
        again = lm.decode(**one)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(torch.equal(one[name], kept[name]) for name in kept)


def test_random_weights_do_not_repeat_themselves(lm: Llasa) -> None:
    chosen = whole_logits(lm, some_tokens(1, 200))[0].argmax(-1)
    repeated = (chosen == some_tokens(1, 200)[0]).double().mean()
    assert len(set(chosen.tolist())) > 80
    assert repeated < 0.05


def test_state_dict_keys_are_the_librarys() -> None:
    expected = LlamaForCausalLM(LlamaConfig(**LANGUAGE_MODEL["tiny"])).state_dict().keys()
    for kind in (LlasaPrefill, LlasaDecode):
        assert random_lm(kind, "tiny").state_dict().keys() == expected


def test_the_full_size_is_the_published_one() -> None:
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**LANGUAGE_MODEL["full"]))
    layer = 2 * 3072**2 + 2 * 3072 * 1024 + 3 * 3072 * 8192 + 2 * 3072
    assert sum(p.numel() for p in model.parameters()) == 193_800 * 3072 + 28 * layer + 3072 == 3_414_100_992
    assert model.model.layers[0].self_attn.head_dim == 128
    assert model.model.rotary_emb.rope_type == "llama3"


def test_importing_the_cores_imports_no_library() -> None:
    code = (
        "import sys, fixtures.cores.llasa, fixtures.cores.llasa_codec, fixtures.cores.llasa_speak, fixtures.dataset;"
        "print([name for name in ('transformers', 'tokenizers', 'scipy') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [(None, "bfloat16"), ((9, 0), "bfloat16"), ((8, 0), "bfloat16"), ((7, 5), "float16"), ((7, 0), "float16")],
)
def test_bfloat16_where_the_card_computes_it(capability: tuple[int, int] | None, dtype: str) -> None:
    assert devices.half_dtype(capability) == dtype


def test_the_oldest_card_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [(9, 0), (7, 5)]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda card: cards[card])
    assert devices.capability() == (7, 5)
    cards.clear()
    assert devices.capability() is None


def test_several_cards_share_the_layers() -> None:
    assert devices.loading_options(2, (7, 5)) == {
        "local_files_only": True,
        "dtype": torch.float16,
        "device_map": "auto",
    }
    for cards in (0, 1):
        assert "device_map" not in devices.loading_options(cards, (8, 0))


@pytest.fixture(scope="module")
def checkpoint(lm: Llasa, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llasa")
    lm.save_pretrained(folder)
    return folder


def test_a_saved_checkpoint_loads_to_the_bit(lm: Llasa, checkpoint: Path) -> None:
    loaded = LlasaPrefill.from_pretrained(checkpoint, local_files_only=True, dtype=torch.float32).eval()
    tokens = some_tokens(2, 71)
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(loaded(tokens), lm.prefill(tokens), strict=True))


def a_step(dtype: torch.dtype) -> dict[str, Tensor]:
    preset = llasa.CORES[1].presets["tiny"]
    inputs = preset.inputs(preset.shapes[1], 2)
    return {name: t.to(dtype) if t.is_floating_point() else t for name, t in inputs.items()}


@pytest.mark.skipif(torch.cuda.is_available(), reason="about a machine without a card: here `auto` takes the card")
def test_loading_for_several_cards_is_legal_without_any(checkpoint: Path) -> None:
    """accelerate's `auto` then places every layer on the CPU."""
    plain = LlasaDecode.from_pretrained(checkpoint, **devices.loading_options(1, None)).eval()
    spread = LlasaDecode.from_pretrained(checkpoint, **devices.loading_options(2, None)).eval()
    assert plain.dtype == spread.dtype == torch.bfloat16
    with torch.no_grad():
        outputs = zip(plain(**a_step(torch.bfloat16)), spread(**a_step(torch.bfloat16)), strict=True)
        assert all(torch.equal(one, two) for one, two in outputs)


def test_a_model_spread_over_places_computes_the_same(lm: Llasa, checkpoint: Path, tmp_path: Path) -> None:
    """A layer left on the disk stands for one on another card: accelerate's hooks move inputs and weights alike."""
    parts = ("model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head", "model.layers.0", "model.layers.2")
    places = dict.fromkeys(parts, "cpu") | {"model.layers.1": "disk"}
    options = {"local_files_only": True, "dtype": torch.float32, "device_map": places, "offload_folder": tmp_path}
    spread = LlasaDecode.from_pretrained(checkpoint, **options).eval()
    assert spread.model.layers[1].mlp.up_proj.weight.is_meta
    with torch.no_grad():
        outputs = zip(spread(**a_step(torch.float32)), lm.decode(**a_step(torch.float32)), strict=True)
        assert all(torch.equal(one, two) for one, two in outputs)
