"""What a call takes and what extra work costs, on either kind of device; clocks are given, so that tests can make
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import perf_counter, process_time
from typing import Protocol

from perf.measure.kernels import KernelMeter, attach
from perf.measure.latency import Clock
from perf.measure.meters import Meter
from perf.measure.processor import ProcessorWatch
from perf.study.inject import Amount, Work, cpu_work, cuda_work
from perf.study.records import Figures, summarise

LEAST_CALLS = 10
"""Samples of a point whatever the time: a rank test on 7 against 7 is the smallest that can reach 0.002."""

REPEATS = 9
"""Times that extra work is timed for one amount of it."""

Call = Callable[[], object]


class Clocks(Protocol):
    """`measured` gives the metrics of a call, `cost` the seconds that so many elements of extra work take beside it,
    and `shares` by metric the extra work's share of the case's own time, at its least. A level is a share of `base`.
    """

    @property
    def base(self) -> str: ...
    def measured(self, call: Call, seconds: float) -> dict[str, Figures]: ...
    def work(self, elements: int) -> Work: ...
    def cost(self, call: Call, elements: int) -> float: ...
    def shares(self, amount: Amount, own: Mapping[str, Figures]) -> dict[str, float]: ...


def sampled(call: Call, seconds: float, wall: Clock, busy: Clock) -> tuple[list[float], list[float]]:
    """(latencies, processor times) of single calls, for `seconds` and at least 10 of them. The processor's clock is
    read outside the latency: it is the slower one to read."""
    latencies: list[float] = []
    processor: list[float] = []
    ends = wall() + seconds
    while len(latencies) < LEAST_CALLS or wall() < ends:
        busy_before, before = busy(), wall()
        call()
        after, busy_after = wall(), busy()
        latencies.append(after - before)
        processor.append(busy_after - busy_before)
    return latencies, processor


@dataclass(frozen=True)
class HostClocks:
    """`latency_s` and `cpu_s`. Extra work is timed right after a call of the case, as it will run: with the caches that
    the case leaves. It keeps one core busy, so its share of `cpu_s` is smaller where the case keeps several busy.
    """

    wall: Clock = perf_counter
    busy: Clock = process_time
    base: str = "latency_s"
    watch: Callable[[], ProcessorWatch] = ProcessorWatch

    def measured(self, call: Call, seconds: float) -> dict[str, Figures]:
        watch = self.watch()
        latencies, processor = sampled(call, seconds, self.wall, self.busy)
        waited = watch.share() or 0.0
        return {
            name: summarise(values, waited)
            for name, values in (("latency_s", latencies), ("cpu_s", processor))
            if min(values) > 0  # a clock that ticks too coarsely for these calls says nothing
        }

    def work(self, elements: int) -> Work:
        return cpu_work(elements)

    def cost(self, call: Call, elements: int) -> float:
        work = self.work(elements)
        return median(self._one(call, work) for _ in range(1 + REPEATS))

    def _one(self, call: Call, work: Work) -> float:
        call()
        before = self.wall()
        work()
        return self.wall() - before

    def shares(self, amount: Amount, own: Mapping[str, Figures]) -> dict[str, float]:
        return {name: amount.seconds / figures.min for name, figures in own.items()}


@dataclass(frozen=True)
class DeviceClocks:
    """`latency_s`, and `device_s`: kernel time, as the gate takes it; extra work is timed in one burst. How much of the
    extra kernel's time a caller waits for depends on what the device would have idled: its share of `latency_s` is not
    known, and absent.
    """

    kernels: Meter = field(default_factory=KernelMeter)
    burst: Meter = field(default_factory=partial(KernelMeter, bursts=1))
    wall: Clock = perf_counter
    busy: Clock = process_time
    base: str = "device_s"
    watch: Callable[[], ProcessorWatch] = ProcessorWatch

    def measured(self, call: Call, seconds: float) -> dict[str, Figures]:
        watch = self.watch()
        latencies, _ = sampled(call, seconds, self.wall, self.busy)
        waited = watch.share() or 0.0
        device_s = self._kernel_time(call, self.kernels)
        return {"latency_s": summarise(latencies, waited), "device_s": Figures(device_s, device_s, device_s)}

    def work(self, elements: int) -> Work:
        return cuda_work(elements)

    def cost(self, call: Call, elements: int) -> float:
        return self._kernel_time(self.work(elements), self.burst)

    def _kernel_time(self, call: Call, kernels: Meter) -> float:
        found = kernels.measure(call)
        if not found.get("device_s"):
            raise RuntimeError("no kernel was recorded: another profiler holds CUPTI, or the call does not use the GPU")
        return found["device_s"]

    def shares(self, amount: Amount, own: Mapping[str, Figures]) -> dict[str, float]:
        return {self.base: amount.seconds / own[self.base].min}


def device_clocks() -> DeviceClocks:
    """With CUPTI in the process from the first case on: it slows launches a little, and stays once it has been used."""
    attach()
    return DeviceClocks()


CLOCKS: Mapping[str, Callable[[], Clocks]] = {"cpu": HostClocks, "cuda": device_clocks}
"""By device."""
