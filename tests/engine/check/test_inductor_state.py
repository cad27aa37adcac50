"""Where compiled code came from: a compiler, or Inductor's cache."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch._inductor.utils import fresh_cache

from perf.check.inductor import noting_state


def compiled_once() -> list[str]:
    torch._dynamo.reset()
    with noting_state() as said, torch.no_grad():
        torch.compile(torch.nn.Linear(6, 5), backend="inductor")(torch.ones(3, 6))
    return said


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler: apt-get install g++")
def test_the_first_is_compiled_and_the_second_comes_from_the_cache() -> None:
    with fresh_cache():
        assert compiled_once() == ["1 compiled"]
        assert compiled_once() == ["1 from the cache"]
    torch._dynamo.reset()


def test_where_nothing_is_compiled_nothing_is_said() -> None:
    with noting_state() as said:
        torch.nn.Linear(6, 5)(torch.ones(3, 6))
    assert said == []
