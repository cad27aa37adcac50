"""Calibration on clocks whose cost is known, and the work itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from perf.study.inject import ATTEMPTS, Amount, calibrate, cpu_work, passes, reached


def clock(fixed_s: float, each_s: float, asked: list[int]) -> Callable[[int], float]:
    def timed(elements: int) -> float:
        asked.append(elements)
        return fixed_s + each_s * elements

    return timed


@pytest.mark.parametrize("wanted_s", [1e-6, 3e-6, 1e-4, 5e-3, 0.1])
@pytest.mark.parametrize(("fixed_s", "each_s"), [(0.0, 1e-9), (4e-7, 1e-9), (9e-7, 2e-8)])
def test_a_linear_cost_is_met(wanted_s: float, fixed_s: float, each_s: float) -> None:
    asked: list[int] = []
    found = calibrate(wanted_s, clock(fixed_s, each_s, asked))
    assert found.seconds == pytest.approx(wanted_s, rel=0.031)
    assert found.seconds == fixed_s + each_s * found.elements
    assert len(asked) <= ATTEMPTS


def test_a_good_guess_is_timed_once() -> None:
    asked: list[int] = []
    calibrate(1e-3, clock(0.0, 1e-9, asked), guess=1_000_000)
    assert asked == [1_000_000]


def test_a_noisy_clock_leads_nowhere_far() -> None:
    dice = np.random.default_rng(1)
    for wanted_s in (3e-6, 1e-5, 1e-4):
        for _ in range(100):
            found = calibrate(wanted_s, lambda elements: (2.5e-6 + 1e-9 * elements) * math.exp(dice.normal(0, 0.05)))
            assert (2.5e-6 + 1e-9 * found.elements) == pytest.approx(wanted_s, rel=0.2)


def test_what_is_out_of_reach_is_told() -> None:
    assert reached(1e-6, Amount(5, 1.19e-6))
    assert reached(1e-6, Amount(5, 0.81e-6))
    assert not reached(1e-6, Amount(1, 2.5e-6))


def test_less_than_the_least_work_gives_the_least() -> None:
    found = calibrate(1e-6, clock(5e-6, 1e-9, []))
    assert (found.elements, found.seconds) == (1, pytest.approx(5.001e-6))


def test_a_step_in_the_cost_ends_as_near_as_it_can() -> None:
    found = calibrate(2.5e-6, lambda elements: 1e-6 if elements < 3000 else 4e-6)
    assert found.seconds in (1e-6, 4e-6)


@pytest.mark.parametrize(
    ("elements", "expected"), [(1, (1, 1)), (4096, (1, 4096)), (4097, (2, 2048)), (40960, (10, 4096))]
)
def test_passes_fill_the_buffer(elements: int, expected: tuple[int, int]) -> None:
    assert passes(elements, 4096) == expected


def test_work_touches_as_many_elements_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[int] = []
    plain = np.log1p

    def counting(source: np.ndarray, out: np.ndarray) -> np.ndarray:
        touched.append(source.size)
        assert np.isfinite(plain(source, out=out)).all()
        return out

    monkeypatch.setattr(np, "log1p", counting)
    work = cpu_work(10_000)
    work()
    assert touched == [3333, 3333, 3333]
