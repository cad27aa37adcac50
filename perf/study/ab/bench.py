"""What a side of a recording does beyond `perf.ab.bench`: extra work of a calibrated amount in each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from perf.ab.bench import Bench
from perf.contract import Case
from perf.measure.device import synchronise
from perf.study.child import amounts_of, nothing
from perf.study.clocks import CLOCKS, Clocks
from perf.study.inject import Work

OWN_S = 0.2
"""Seconds over which a case's shortest call is looked for."""


@dataclass
class LadenBench(Bench):
    """`clocks` are by device. Without extra work a call does the same as in a comparison, and one empty call more."""

    clocks: Mapping[str, Callable[[], Clocks]] = field(default_factory=lambda: CLOCKS)
    _extra: Work = nothing
    _works: dict[int, Work] = field(default_factory=lambda: {0: nothing})

    def _answers(self) -> dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]]:
        return {**super()._answers(), "calibrate": self._calibrate}

    def _timed(self, case: Case) -> Callable[[], None]:
        self._works = {0: nothing}
        self._extra = nothing
        runner, prepared = self.run.workbench.built(case).runner, self.run.workbench.timed(case)

        def call() -> None:
            runner.run(prepared)
            self._extra()
            synchronise(case.device)

        return call

    def _run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        key, elements = request["key"], request.get("elements", 0)
        if elements not in self._works:
            return {"error": f"{key}: no work of {elements} elements is ready: ask for calibrate first"}
        self._extra = self._works[elements]
        return super()._run(request)

    def _calibrate(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The amounts of work, which are made ready here: making a buffer is no part of a call."""
        if error := self._unbuilt(request["key"]):
            return error
        clocks = self.clocks[self.cases[request["key"]].device]()
        self._extra = nothing
        own = clocks.measured(self._call, OWN_S)
        found = amounts_of(request["levels"], own[clocks.base].min, partial(clocks.cost, self._call))
        self._works |= {amount.elements: clocks.work(amount.elements) for amount in found.values()}
        return {
            "amounts": [
                {"level": level, "elements": amount.elements, "shares": clocks.shares(amount, own)}
                for level, amount in sorted(found.items())
            ]
        }
