"""The ledger on a fake clock: spans, spans within spans, and what is left over."""

from __future__ import annotations

import pytest

from perf.measure.ledger import Ledger


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_an_inner_span_is_not_charged_twice(clock: Clock) -> None:
    ledger = Ledger(clock)
    clock.passes(5.0)
    with ledger.span("checking"):
        clock.passes(1.0)
        with ledger.span("building"):
            clock.passes(30.0)
        clock.passes(2.0)
    clock.passes(4.0)
    with ledger.span("building"):
        clock.passes(10.0)
    assert ledger.seconds == {"checking": 3.0, "building": 40.0}


def test_the_harness_is_what_is_left(clock: Clock) -> None:
    ledger = Ledger(clock)
    assert ledger.harness_share == 0.0
    clock.passes(3.0)
    with ledger.span("sampling"):
        clock.passes(72.0)
    clock.passes(5.0)
    assert (ledger.wall_s, ledger.harness_s, ledger.harness_share) == (80.0, 8.0, 0.1)


def test_a_span_that_raises_is_charged_and_closed(clock: Clock) -> None:
    ledger = Ledger(clock)

    @ledger.span("building")
    def build() -> None:
        clock.passes(3.0)
        raise KeyError

    with pytest.raises(KeyError):
        build()
    clock.passes(9.0)
    with ledger.span("sampling"):
        clock.passes(1.0)
    assert ledger.seconds == {"building": 3.0, "sampling": 1.0}
