"""What a side does for the parent: list its cases, build one, run it n times. One case stands built at a time."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from types import ModuleType
from typing import Any

from perf.ab import PROTOCOL
from perf.contract import Case
from perf.errors import CoregateError, UnsupportedError, first_line
from perf.measure.device import synchronise
from perf.measure.kernels import KernelMeter
from perf.measure.latency import warm_up
from perf.measure.machine import software
from perf.measure.meters import Meter
from perf.session import Session

CLOCKS: Mapping[str, Mapping[str, Callable[[], float]]] = {
    "cpu": {"latency_s": perf_counter, "cpu_s": process_time},
    "cuda": {"latency_s": perf_counter},
}
"""By device. Process CPU time does not run while a neighbour has the core, so it tells much smaller changes on a busy
machine; it is blind to waiting. While a GPU works the host spins, so there it says nothing."""

KERNEL_TIME = "device_s"
"""Beside those on a GPU, one value a block: it has to be traced apart from the calls that are timed."""
TRACED = 10
"""Calls of a block at most under the trace."""


@dataclass
class Bench:
    """`cases` by key; `skips` are reasons by key; `replaced` is the folder that this side's checkout stands in for, or
    None."""

    run: Session
    cases: Mapping[str, Case]
    skips: Mapping[str, str] = field(default_factory=dict)
    replaced: Path | None = None
    kernels: Callable[[int], Meter] = lambda calls: KernelMeter(calls=calls, bursts=1, max_s=math.inf)
    _key: str = ""
    _call: Callable[[], None] = lambda: None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """To one request of `perf.ab.side`'s protocol."""
        answers = self._answers()
        ask = request.get("ask")
        if ask not in answers:
            return {
                "error": f"this side knows no request {ask!r}; it knows {', '.join(answers)}: take a newer revision"
            }
        return answers[ask](request)

    def _answers(self) -> dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]]:
        return {"cases": self._list, "build": self._build, "run": self._run}

    def _list(self, _: Mapping[str, Any]) -> dict[str, Any]:
        traced = {"cpu": (), "cuda": (KERNEL_TIME,)}
        clocks = {key: [*CLOCKS[case.device], *traced[case.device]] for key, case in self.cases.items()}
        return {"cases": clocks, "skips": dict(self.skips)}

    def _build(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Build, check, warm up. From here to the next build the garbage collector keeps out of the samples. What
        another process of this side has checked is not checked again: that takes longer than to build."""
        case = self.cases[request["key"]]
        self._key = ""
        gc.enable()
        gc.collect()
        try:
            if not request.get("checked") and not (found := self.run.workbench.parity(case)).ok:
                return {"word": "wrong", "why": f"not at parity: {found.reason}"}
            self._key, self._call = case.key, self._timed(case)
            warm_up(self._call, perf_counter)
        except UnsupportedError as reason:
            return {"word": "unsupported", "why": str(reason)}
        except CoregateError as problem:
            return {"error": str(problem)}
        except Exception as error:
            return {"word": "wrong", "why": f"did not build: {first_line(error)}"}
        if strange := self._strays():
            why = "put the revision's own folder first, with pytest's `pythonpath` (. or src)"
            return {"error": f"{strange[0]} is the working tree's, not the revision's: {why}"}
        gc.disable()
        return {"word": "ready", "why": ""}

    def _strays(self) -> list[str]:
        own = (self.run.options.root, sys.prefix, sys.base_prefix)
        return strays(list(sys.modules.values()), self.replaced, *own) if self.replaced else []

    def _unbuilt(self, key: str) -> dict[str, Any]:
        return {} if key == self._key else {"error": f"{key} is not built: ask for build first"}

    def _timed(self, case: Case) -> Callable[[], None]:
        runner, prepared = self.run.workbench.built(case).runner, self.run.workbench.timed(case)

        def call() -> None:
            runner.run(prepared)
            synchronise(case.device)

        return call

    def _run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        key, calls = request["key"], request["calls"]
        if error := self._unbuilt(key):
            return error
        device = self.cases[key].device
        clocks = CLOCKS[device]
        samples = [_timed_call(self._call, list(clocks.values())) for _ in range(calls)]
        durations = dict(zip(clocks, map(list, zip(*samples, strict=True)), strict=True))
        if device == "cuda":
            traced = self.kernels(min(calls, TRACED)).measure(self._call)
            if KERNEL_TIME not in traced:
                return {"error": f"{key}: no kernel time: another profiler has CUPTI, or it does not use the GPU"}
            durations[KERNEL_TIME] = [traced[KERNEL_TIME]]
        return {"durations": durations}


def _timed_call(call: Callable[[], None], clocks: Sequence[Callable[[], float]]) -> list[float]:
    before = [read() for read in clocks]
    call()
    return [read() - then for read, then in zip(clocks, before, strict=True)]


def hello() -> dict[str, Any]:
    """The first line: the protocol, and this side's software."""
    return {"coregate_ab": PROTOCOL, "software": software()}


def strays(modules: Iterable[ModuleType], replaced: Path, *own: str | Path) -> list[str]:
    """Files of `modules` below `replaced` and not below any of `own`: code of the very tree that a checkout stands in
    for. Both sides would run it, and it would read as `same`."""
    files = [Path(file) for module in modules if (file := getattr(module, "__file__", None))]
    below = [file for file in files if file.is_relative_to(replaced)]
    return sorted(str(file) for file in below if not any(file.is_relative_to(folder) for folder in own))
