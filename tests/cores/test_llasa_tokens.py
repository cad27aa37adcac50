"""Codes out of generated tokens: the loop and the vectorised form, against hand-made cases and each other (C23)."""

from __future__ import annotations

import pytest
import torch

from fixtures.cores import llasa
from fixtures.models.llasa_tokens import ExtractLoop, ExtractVectorised
from fixtures.models.llasa_vocabulary import PUBLISHED, TINY, Vocabulary

END, FIRST, LAST = 128_261, 128_264, 193_799
FORM_NAMES = ("loop", "vectorised")
FORMS = pytest.mark.parametrize("form", [ExtractLoop, ExtractVectorised])


@FORMS
@pytest.mark.parametrize(
    ("tokens", "codes"),
    [
        ([FIRST + 7, FIRST + 3, END, FIRST + 9], [7, 3, -1, -1]),
        ([FIRST + 7, 220, FIRST + 3, END], [7, 3, -1, -1]),
        ([FIRST, LAST, FIRST, LAST], [0, 65_535, 0, 65_535]),
        ([END, FIRST + 1, FIRST + 2, END], [-1, -1, -1, -1]),
        ([5, 128_009, 128_263, 0], [-1, -1, -1, -1]),
        ([193_800, FIRST + 4, -1, END], [4, -1, -1, -1]),
    ],
    ids=["end", "stray", "no-end", "end-first", "no-speech", "out-of-range"],
)
def test_codes_of_one_answer(
    form: type[ExtractLoop] | type[ExtractVectorised], tokens: list[int], codes: list[int]
) -> None:
    assert form(PUBLISHED)(torch.tensor([tokens])).tolist() == [codes]


@FORMS
def test_rows_do_not_meet(form: type[ExtractLoop] | type[ExtractVectorised]) -> None:
    tokens = torch.tensor([[FIRST + 1, END, FIRST + 2], [FIRST + 3, 220, FIRST + 4], [END, END, END]])
    assert form(PUBLISHED)(tokens).tolist() == [[1, -1, -1], [3, 4, -1], [-1, -1, -1]]


@FORMS
def test_an_answer_without_a_token_has_no_code(form: type[ExtractLoop] | type[ExtractVectorised]) -> None:
    assert form(TINY)(torch.zeros(2, 0, dtype=torch.int64)).shape == (2, 0)


@pytest.mark.parametrize("size", ["tiny", "full"])
@pytest.mark.parametrize("seed", range(5))
def test_both_forms_are_equal(size: str, seed: int) -> None:
    loop, vectorised = (
        next(core for core in llasa.CORES if core.name == f"llasa-tokens-{form}") for form in FORM_NAMES
    )
    for shape in loop.presets[size].shapes:
        inputs = loop.presets[size].inputs(shape, seed)
        expected = loop.presets[size].build()(**inputs)
        found = vectorised.presets[size].build()(**inputs)
        assert found.dtype == expected.dtype == torch.int64
        assert torch.equal(found, expected)


@pytest.mark.parametrize("vocabulary", [TINY, PUBLISHED])
def test_the_cores_answers_hold_every_kind_of_token(vocabulary: Vocabulary) -> None:
    tokens = llasa.token_inputs("tiny" if vocabulary is TINY else "full", llasa.TOKEN_SHAPES[0], seed=0)["tokens"]
    ended = (tokens == vocabulary.end).any(1)
    assert ended.tolist() == [True, False]
    assert 0.01 < (tokens < vocabulary.speech).double().mean() < 0.15
