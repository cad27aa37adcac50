"""The garbage collector passes over what stays, and what of that became garbage is collected the next time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from perf.items import make_ready
from perf.measure.device import release, settle_heap
from perf.session import Session


class Ring:
    def __init__(self) -> None:
        self.ring = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_is_left_is_passed_over_and_what_comes_after_is_collected() -> None:
    kept = Ring()
    settle_heap()
    assert not any(item is kept for item in gc.get_objects())
    later = Ring()
    ref = weakref.ref(later)
    del later
    release("cpu")
    assert ref() is None


def test_what_became_garbage_since_is_collected_the_next_time() -> None:
    once = Ring()
    ref = weakref.ref(once)
    settle_heap()
    del once
    settle_heap()
    assert ref() is None


def test_a_run_that_has_ended_and_a_test_of_the_users_own_have_all_of_the_heap() -> None:
    run = Session.__new__(Session)
    run.background = None
    test: Any = SimpleNamespace(fixturenames=["tmp_path"], callspec=SimpleNamespace(params={}))
    for ending in (run.give_up, partial(make_ready, run, test)):
        once = Ring()
        ref = weakref.ref(once)
        settle_heap()
        del once
        ending()
        gc.collect()
        assert ref() is None
