"""What a side does with extra work, over a stand-in for the session and for the clocks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perf.contract import Case
from perf.study.ab.bench import LadenBench
from perf.study.inject import Amount, Work
from perf.study.records import Figures

CASE = Case("core", "tiny", "eager", "s", "cpu")


@dataclass
class Clocks:
    """A call takes 1 ms at its least; an element of extra work takes 1 µs, and each call of it is noted."""

    base: str = "latency_s"
    done: list[int] = field(default_factory=list)

    def measured(self, call: Callable[[], object], seconds: float) -> dict[str, Figures]:
        call()
        return {"latency_s": Figures(2e-3, 2e-3, 1e-3)}

    def work(self, elements: int) -> Work:
        return lambda: self.done.append(elements)

    def cost(self, call: Callable[[], object], elements: int) -> float:
        return 1e-6 * max(elements, 5)

    def shares(self, amount: Amount, own: Mapping[str, Figures]) -> dict[str, float]:
        return {"latency_s": amount.seconds / own["latency_s"].min}


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    yield
    gc.enable()


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def side(clocks: Clocks) -> LadenBench:
    runner = SimpleNamespace(run=lambda prepared: None)
    workbench = SimpleNamespace(
        parity=lambda case: SimpleNamespace(ok=True),
        built=lambda case: SimpleNamespace(runner=runner),
        timed=lambda case: "inputs",
    )
    session: Any = SimpleNamespace(workbench=workbench, options=SimpleNamespace(root=Path("/project")))
    bench = LadenBench(session, {CASE.key: CASE}, clocks={"cpu": lambda: clocks})
    assert bench.answer({"ask": "build", "key": CASE.key}) == {"word": "ready", "why": ""}
    return bench


def amounts(side: LadenBench, *levels: float) -> dict[float, int]:
    found = side.answer({"ask": "calibrate", "key": CASE.key, "levels": list(levels)})["amounts"]
    return {amount["level"]: amount["elements"] for amount in found}


def test_levels_are_shares_of_the_shortest_call(side: LadenBench) -> None:
    """1 ms, not the median's 2: 3 % are 30 µs, that is 30 elements; within the calibration's 3 %."""
    found = amounts(side, 0.1, 0.03)
    assert found == {0.03: pytest.approx(30, rel=0.03), 0.1: pytest.approx(100, rel=0.03)}


def test_a_level_below_the_least_work_is_left_out(side: LadenBench) -> None:
    """The least takes 5 µs, and 0.1 % of a call is 1."""
    assert set(amounts(side, 0.001, 0.03)) == {0.03}


def test_every_call_of_a_block_does_the_extra_work_that_is_asked_for(side: LadenBench, clocks: Clocks) -> None:
    elements = amounts(side, 0.03)[0.03]
    for asked, done in (({"elements": elements}, [elements] * 4), ({}, []), ({"elements": 0}, [])):
        clocks.done.clear()
        found = side.answer({"ask": "run", "key": CASE.key, "calls": 4, **asked})
        assert len(found["durations"]["latency_s"]) == 4
        assert clocks.done == done


def test_an_amount_that_was_not_calibrated_is_an_error(side: LadenBench) -> None:
    found = side.answer({"ask": "run", "key": CASE.key, "calls": 1, "elements": 77})
    assert found["error"] == f"{CASE.key}: no work of 77 elements is ready: ask for calibrate first"


def test_what_is_built_next_has_no_work_of_the_last(side: LadenBench) -> None:
    elements = amounts(side, 0.03)[0.03]
    side.answer({"ask": "run", "key": CASE.key, "calls": 1, "elements": elements})
    side.answer({"ask": "build", "key": CASE.key})
    assert "error" in side.answer({"ask": "run", "key": CASE.key, "calls": 1, "elements": elements})


def test_calibrating_wants_a_case_that_is_built(side: LadenBench) -> None:
    other = Case("other", "tiny", "eager", "s", "cpu")
    side.cases = {**side.cases, other.key: other}
    found = side.answer({"ask": "calibrate", "key": other.key, "levels": [0.03]})
    assert found["error"] == f"{other.key} is not built: ask for build first"
