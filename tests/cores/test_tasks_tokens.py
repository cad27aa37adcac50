"""Token agreement, on cases counted by hand."""

from __future__ import annotations

import pytest
import torch

from fixtures.tasks_tokens import token_agreement


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
