"""Being stopped, once and again, and while a process is being started."""

from __future__ import annotations

import signal

import pytest

from perf.ab.interrupt import STOPS, held_back, stoppable


@pytest.mark.parametrize("stop", STOPS)
def test_either_signal_ends_us_once_and_the_next_ones_do_not(stop: signal.Signals) -> None:
    cleared = []

    def stopped_thrice() -> None:
        with stoppable():
            try:
                signal.raise_signal(stop)
            finally:
                for again in STOPS:
                    signal.raise_signal(again)
                cleared.append("worktree")

    before = [signal.getsignal(name) for name in STOPS]
    with pytest.raises(KeyboardInterrupt):
        stopped_thrice()
    assert cleared == ["worktree"]
    assert [signal.getsignal(name) for name in STOPS] == before


def test_a_signal_while_something_starts_waits_until_it_is_in_our_hands() -> None:
    started = []

    def stopped_while_starting() -> None:
        with stoppable():
            with held_back():
                signal.raise_signal(signal.SIGTERM)
                started.append("process")
            started.append("another")

    with pytest.raises(KeyboardInterrupt):
        stopped_while_starting()
    assert started == ["process"]


def test_without_a_signal_nothing_is_held_back() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with held_back():
        pass
    assert signal.getsignal(signal.SIGINT) is handler
