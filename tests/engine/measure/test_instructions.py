"""Counts of one call: medians of growth, the wait for the device apart, and absent where they cannot be read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perf.measure.cpu_time import CpuTimeMeter
from perf.measure.instructions import InstructionMeter, attributes, thread_counter
from perf.measure.repeats import Reading, Repeats


class Register:
    """A counter that grows as a script says, once a call; and a clock on which each call takes a second."""

    def __init__(self, *growth: float) -> None:
        self.value, self.calls, self.closed = 1000.0, 0, False
        self._growth = growth

    def call(self) -> None:
        self.value += self._growth[self.calls % len(self._growth)]
        self.calls += 1

    def spin(self) -> None:
        self.value += 1e9

    def read(self) -> float:
        return self.value

    def clock(self) -> float:
        return float(self.calls)

    @contextmanager
    def opened(self) -> Iterator[Reading]:
        yield self.read
        self.closed = True


def test_the_median_call_is_reported_and_waiting_is_not_counted() -> None:
    register = Register(500.0, 90.0, 100.0, 110.0, 105.0)
    meter = InstructionMeter(register.spin, register.opened, Repeats(calls=5, max_s=100.0, clock=register.clock))
    assert meter.measure(register.call) == {"host_instructions": 105.0}
    assert (register.calls, register.closed) == (5, True)


def test_absent_where_the_kernel_forbids_it() -> None:
    @contextmanager
    def refused() -> Iterator[None]:
        yield None

    register = Register(1.0)
    assert InstructionMeter(register.spin, refused).measure(register.call) == {}
    assert register.calls == 0


def test_time_bounds_the_calls_but_one_is_always_made() -> None:
    long, short = Register(3.0), Register(3.0)
    assert CpuTimeMeter(long.read, Repeats(10, 0.5, long.clock)).measure(long.call) == {"cpu_s": 3.0}
    assert CpuTimeMeter(short.read, Repeats(10, 4.0, short.clock)).measure(short.call) == {"cpu_s": 3.0}
    assert (long.calls, short.calls) == (1, 4)


def test_the_event_is_user_space_instructions_of_this_thread() -> None:
    kind, size, config = struct.unpack_from("IIQ", attributes())
    (flags,) = struct.unpack_from("Q", attributes(), 40)  # offsets of perf_event_open(2): flags follow read_format
    disabled, inherit, pinned, exclude_user, exclude_kernel = ((flags >> bit) & 1 for bit in (0, 1, 2, 4, 5))
    assert (kind, size, config) == (0, 112, 1)
    assert len(attributes()) == 112
    assert (disabled, inherit, pinned, exclude_user, exclude_kernel) == (0, 0, 1, 0, 1)


def test_a_real_counter_grows_with_work_or_is_absent() -> None:
    with thread_counter() as reading:
        if reading is None:
            assert InstructionMeter().measure(lambda: None) == {}
            return
        before = reading()
        sum(range(100_000))
        assert reading() - before > 100_000


def test_a_machine_without_the_system_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with thread_counter() as reading:
        assert reading is None
