"""One recorded case on a clock of our own: what a level is, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from perf.study.child import points_of
from perf.study.clocks import DeviceClocks, HostClocks
from perf.study.inject import LEVELS, Work
from perf.study.records import Point


@dataclass
class World:
    """Time that passes only where something works: a call takes `call_s`, extra work `fixed_s` and 1 ns an element."""

    call_s: float
    fixed_s: float = 0.0
    now: float = 0.0

    def clock(self) -> float:
        return self.now

    def with_extra(self, extra: Work) -> Callable[[], None]:
        def call() -> None:
            self.now += self.call_s
            extra()

        return call

    def extra(self, elements: int) -> Work:
        def work() -> None:
            self.now += self.fixed_s + 1e-9 * elements

        return work

    def points(self, clocks: HostClocks | DeviceClocks, levels: tuple[float, ...] = LEVELS) -> list[Point]:
        return list(points_of("a/b/c/d/cpu", self.with_extra, clocks, 20 * self.call_s, levels))


@dataclass(frozen=True)
class Host(HostClocks):
    """Both processor and wall clock are the world's."""

    world: World = field(default_factory=lambda: World(1e-3))

    def work(self, elements: int) -> Work:
        return self.world.extra(elements)


@dataclass(frozen=True)
class Device(DeviceClocks):
    """Of the world's time, the device is busy for nine tenths."""

    world: World = field(default_factory=lambda: World(1e-3))

    def work(self, elements: int) -> Work:
        return self.world.extra(elements)


@dataclass(frozen=True)
class Kernels:
    world: World
    share: float = 0.9

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        before = self.world.now
        call()
        return {"device_s": self.share * (self.world.now - before)}


def host(world: World) -> Host:
    return Host(wall=world.clock, busy=world.clock, world=world)


def test_a_level_is_that_much_more_work() -> None:
    shuffled = (0.05, 0.01, 0.2, 0.03, 0.1, 0.02)
    found = (world := World(5e-3, fixed_s=2e-6)).points(host(world), shuffled)
    assert [point.wanted for point in found] == [0.0, *shuffled]
    assert found[0].metrics["latency_s"].median == pytest.approx(5e-3)
    for point in found[1:]:
        assert point.achieved["latency_s"] == pytest.approx(point.wanted, rel=0.031)
        for metric in ("latency_s", "cpu_s"):
            assert point.metrics[metric].median == pytest.approx(5e-3 * (1 + point.achieved[metric]), rel=1e-6)


def test_a_level_that_the_least_work_exceeds_is_left_out() -> None:
    found = (world := World(1e-4, fixed_s=2.5e-6)).points(host(world))
    assert [point.wanted for point in found] == [0.0, 0.03, 0.05, 0.1, 0.2]  # 2.5 µs are 2.5 % of 100 µs


def test_every_point_has_ten_calls_however_short_the_time() -> None:
    world = World(1e-3)
    found = list(points_of("a/b/c/d/cpu", world.with_extra, host(world), 1e-6, (0.1,)))
    assert [len(point.metrics["latency_s"].samples) for point in found] == [10, 10]


def test_a_processor_clock_that_stands_still_says_nothing() -> None:
    world = World(1e-3)
    clocks = Host(wall=world.clock, busy=lambda: 7.0, world=world)
    assert {name for point in world.points(clocks) for name in point.metrics} == {"latency_s"}


def test_levels_on_a_gpu_are_of_kernel_time() -> None:
    world = World(5e-3)
    clocks = Device(kernels=Kernels(world), burst=Kernels(world), wall=world.clock, busy=world.clock, world=world)
    found = world.points(clocks)
    own = found[0].metrics["device_s"]
    assert (own.median, own.mean, own.min, own.samples) == (pytest.approx(4.5e-3),) * 3 + ((),)
    for point in found[1:]:
        assert set(point.achieved) == {"device_s"}
        assert point.metrics["device_s"].median == pytest.approx(4.5e-3 * (1 + point.achieved["device_s"]))
        assert point.achieved["device_s"] == pytest.approx(point.wanted, rel=0.031)


def test_a_call_without_kernels_is_an_error() -> None:
    world = World(1e-3)
    with pytest.raises(RuntimeError, match="no kernel was recorded"):
        world.points(
            Device(
                kernels=Kernels(world, share=0.0), burst=Kernels(world), wall=world.clock, busy=world.clock, world=world
            )
        )
