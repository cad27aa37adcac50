"""Time on the GPU itself, as CUPTI records it for the whole process: PyTorch's kernels and ONNX Runtime's alike.

Nothing the host does is in it, and so it repeats to a few parts in a thousand between processes where latency of the
same calls differs by a fifth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

COPIES = ("Memcpy", "Memset")
LEAD = "spin_kernel"
"""What `torch.cuda._sleep` launches, and no model does."""
LEADS = (512, 4096, 4096)


@dataclass(frozen=True)
class Activity:
    """One kernel, copy or fill on the device, from `start_s` to `end_s` of a clock that all of one trace share."""

    name: str
    start_s: float
    end_s: float

    @property
    def is_kernel(self) -> bool:
        return not self.name.startswith(COPIES)


Bursts = Callable[[], Iterator[int]]
"""Each time that it is asked for the next, some calls, and how many they were; the calls may still be at work then."""

Trace = Callable[[Bursts], Sequence[tuple[int, Sequence[Activity]]]]
"""By burst, its number of calls and what the device did until it had finished all that they queued; empty where nothing
that can be believed was recorded."""


def busy_s(activities: Iterable[Activity]) -> float:
    """The length of the union of intervals: the time in which the device did anything at all. Their plain sum would
    count twice what runs side by side, and a kernel that starts early for the time it waits: the earlier, the more.
    """
    busy, until = 0.0, float("-inf")
    for found in sorted(activities, key=lambda found: found.start_s):
        busy += max(0.0, found.end_s - max(found.start_s, until))
        until = max(until, found.end_s)
    return busy


def cuda_trace(bursts: Bursts) -> Sequence[tuple[int, Sequence[Activity]]]:
    """All `bursts` in one session of `torch.profiler` with CUDA activity alone: recording what the host does would slow
    it down.

    CUPTI loses the first records of a session, one more with each session of the process, and a session that begins
    while the last one is being torn down gets none (pytorch/pytorch#192021, pytorch/kineto#1554; torch 2.11 and 2.14
    have both). So kernels that nobody counts go ahead, and unless one of them was recorded nothing after them is
    believed.
    """
    for kernels in LEADS:
        calls, recorded = _record(bursts, kernels)
        found = apart(recorded, len(calls))
        if found is not None:
            return list(zip(calls, found, strict=True))
    return []


def apart(recorded: Iterable[Activity], bursts: int) -> list[Sequence[Activity]] | None:
    """What was recorded of each burst: between the last kernel of the lead and one like it that follows the burst,
    between that and the next. None where the lead was lost or a burst is empty, and so perhaps more.
    """
    in_order = sorted(recorded, key=lambda found: found.start_s)
    marks = [at for at, found in enumerate(in_order) if LEAD in found.name][-bursts - 1 :]
    if len(marks) <= bursts:
        return None
    found: list[Sequence[Activity]] = [in_order[mark + 1 : following] for mark, following in pairwise(marks)]
    return found if all(found) else None


def _record(bursts: Bursts, kernels: int) -> tuple[list[int], list[Activity]]:
    calls: list[int] = []
    with session(ProfilerActivity.CUDA) as recorded:
        lead(kernels)
        for done in bursts():
            torch.cuda.synchronize()
            calls.append(done)
            lead(1)
    assert recorded.profiler is not None
    found = recorded.profiler.kineto_results
    return calls, activities(found.events() if found else ())


@contextmanager
def session(*activities: ProfilerActivity) -> Iterator[profile]:
    """One session of the profiler, of which torch 2.11 warns; what it advises, `acc_events=True`, would make Python
    objects of all events: 3 s a case more (H100)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning: Profiler clears events")
        with profile(activities=activities) as recorded:
            yield recorded


def lead(kernels: int) -> None:
    """Launch as many that nobody counts. Waited for: what runs on another stream would overtake them."""
    for _ in range(kernels):
        torch.cuda._sleep(1)
    torch.cuda.synchronize()


@cache
def attach() -> None:
    """Trace nothing, once: from its first session on CUPTI stays in the process and slows launches down a little
    (pytorch/pytorch#144455), which must be so for the first case's latency too or it would be another machine's.
    """
    cuda_trace(lambda: iter(()))


def activities(events: Iterable[Any]) -> list[Activity]:
    """The device's own among a profile's raw events (`torch._C._autograd._KinetoEvent`); ranges that `record_function`
    drew around several of them are none. `profile.events()` would first make Python objects of all events and a tree of
    those: 44 µs an event where this takes 3 (torch 2.14, events of a CPU), and ten calls are ten thousand kernels.
    Times count from the first event, since nanoseconds since 1970 leave a float64 no more than quarters of a
    microsecond.
    """
    own = [event for event in events if event.device_type().name == "CUDA" and not _is_range(event)]
    origin_ns = min((event.start_ns() for event in own), default=0)
    spans = ((event.name(), event.start_ns() - origin_ns, event.duration_ns()) for event in own)
    return [Activity(name, start * 1e-9, (start + duration) * 1e-9) for name, start, duration in spans]


def _is_range(event: Any) -> bool:
    return hasattr(event, "is_user_annotation") and bool(event.is_user_annotation())


def _of_one_call(found: Sequence[Activity], calls: int) -> dict[str, float]:
    return {
        "device_s": busy_s(found) / calls,
        "kernels": sum(item.is_kernel for item in found) / calls,
    }


@dataclass(frozen=True)
class KernelMeter:
    """Over bursts of up to `calls` calls, the median burst's mean call: `device_s` is the time in which
    kernels, copies or fills were at work (`busy_s`), `kernels` how many kernels ran (those of a CUDA graph one
    by one). Empty where nothing was recorded: another profiler has CUPTI, or the call does not use the GPU.

    Of the same kernels one burst differs from the next by 0.1 to 0.7 % (H100, DeepLabV3 in float32). So there are
    several, of so many calls as fit into `max_s` by one that is timed before (`wait` is for the device), and no further
    one once `max_s` are over. The calls of a burst follow each other, so that what fits into the L2 cache is found
    there.
    """

    trace: Trace = cuda_trace
    calls: int = 10
    bursts: int = 5
    max_s: float = 3.0
    clock: Callable[[], float] = perf_counter
    wait: Callable[[], object] = torch.cuda.synchronize

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        traced = self.trace(partial(self._bursts, call, self._calls(call)))
        if not traced:
            return {}
        bursts = [_of_one_call(found, calls) for calls, found in traced]
        middle = {name: median(burst[name] for burst in bursts) for name in bursts[0]}
        return {**middle, "kernels": round(middle["kernels"])}

    def _calls(self, call: Callable[[], object]) -> int:
        """In one burst."""
        if self.calls == 1 or math.isinf(self.max_s):
            return self.calls
        begun = self.clock()
        call()
        self.wait()
        return max(1, min(self.calls, int(self.max_s / self.bursts / max(self.clock() - begun, 1e-9))))

    def _bursts(self, call: Callable[[], object], calls: int) -> Iterator[int]:
        """Keeps no result: a CUDA graph's next replay wants its outputs free."""
        begun = self.clock()
        for _ in range(self.bursts):
            for _ in range(calls):
                call()
            yield calls
            if self.clock() - begun >= self.max_s:
                return
