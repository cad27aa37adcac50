"""What tests of graphs need of TorchDynamo."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch._dynamo


@pytest.fixture
def clean_dynamo() -> Iterator[None]:
    """Nothing compiled before, and nothing left."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
