"""Time on the GPU itself, as CUPTI records it for the whole process: PyTorch's kernels and ONNX Runtime's alike.

Nothing the host does is in it, and so it repeats to a few parts in a thousand between processes where latency of the
same calls differs by a fifth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

COPIES = ("Memcpy", "Memset")


@dataclass(frozen=True)
class Activity:
    """One kernel, copy or fill on the device, from `start_s` to `end_s` of a clock that all of one trace share."""

    name: str
    start_s: float
    end_s: float

    @property
    def is_kernel(self) -> bool:
        return not self.name.startswith(COPIES)


Trace = Callable[[Callable[[], object]], Sequence[Activity]]
"""What the device did from the start of a function until it had finished all that the function queued."""


def total_s(activities: Iterable[Activity]) -> float:
    """The plain sum: what runs side by side counts twice."""
    return sum(found.end_s - found.start_s for found in activities)


def busy_s(activities: Iterable[Activity]) -> float:
    """The length of the union of intervals: the time in which the device did anything at all."""
    busy, until = 0.0, float("-inf")
    for found in sorted(activities, key=lambda found: found.start_s):
        busy += max(0.0, found.end_s - max(found.start_s, until))
        until = max(until, found.end_s)
    return busy


def cuda_trace(work: Callable[[], object]) -> list[Activity]:
    """`work` under `torch.profiler` with CUDA activity alone: recording what the host does would slow it down."""
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        work()
        torch.cuda.synchronize()
    return activities(recorded.events() or ())


def activities(events: Iterable[Any]) -> list[Activity]:
    """The device's own among a profile's events; ranges that `record_function` drew around several of them are none."""
    return [
        Activity(event.name, event.time_range.start * 1e-6, event.time_range.end * 1e-6)
        for event in events
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]


@dataclass(frozen=True)
class KernelMeter:
    """Over `calls` calls, the mean of each: `device_s` is the plain sum of kernels, copies and fills, `device_busy_s`
    the union of their intervals, `kernels` how many kernels ran (those of a CUDA graph one by one). Empty where
    nothing was recorded: another profiler has CUPTI, or the call does not use the GPU.

    The calls follow each other, so that what fits into the L2 cache is found there.
    """

    trace: Trace = cuda_trace
    calls: int = 10

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        found = self.trace(lambda: [call() for _ in range(self.calls)])
        if not found:
            return {}
        return {
            "device_s": total_s(found) / self.calls,
            "device_busy_s": busy_s(found) / self.calls,
            "kernels": round(sum(item.is_kernel for item in found) / self.calls),
        }
