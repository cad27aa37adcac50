"""Token agreement, on cases counted by hand."""

from __future__ import annotations

import pytest
import torch

from fixtures.tasks_tokens import greedy_choice_kept, token_agreement


def test_token_agreement_counts_equal_choices() -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]], [[0.0, 0.1, 5.0], [0.0, 1.0, 0.5]]])
    other = torch.tensor([[[0.0, 9.0, 1.0], [3.0, 0.0, 4.0]], [[0.0, 0.1, 5.0], [0.0, 1.0, 0.5]]])
    assert token_agreement((logits,), (other,)) == 0.75
    assert token_agreement((logits,), (logits.half(),)) == 1.0
    codes = torch.tensor([[1, 2, 3, -1]])
    assert token_agreement((codes,), (torch.tensor([[1, 9, 9, -1]]),)) == 0.5


def test_token_agreement_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match="run both on the same inputs"):
        token_agreement((torch.zeros(2, 3),), (torch.zeros(3, 3),))
    with pytest.raises(ValueError, match="non-empty"):
        token_agreement((torch.zeros(0, dtype=torch.int64),), (torch.zeros(0, dtype=torch.int64),))


def test_a_choice_is_worth_what_the_reference_thinks_of_it() -> None:
    """Logits 0, 2, 4 have the mean 2 and the best 2 above it. The same choice keeps 1, the middle one 0, and a near tie
    (3.9 beside 4, mean 7.9 / 3) keeps (3.9 - 7.9 / 3) / (4 - 7.9 / 3) = 0.926829."""
    reference = torch.tensor([[0.0, 2.0, 4.0], [0.0, 2.0, 4.0], [0.0, 3.9, 4.0]])
    chosen = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert greedy_choice_kept((reference,), (chosen,)) == pytest.approx((1 + 0 + 0.926829) / 3, abs=1e-6)
    assert greedy_choice_kept((reference,), (reference.half(),)) == 1.0
    with pytest.raises(ValueError, match="run both on the same inputs"):
        greedy_choice_kept((reference,), (chosen[:2],))
