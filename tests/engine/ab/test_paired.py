"""The word of an A/B comparison: intervals by hand, and the stated error rates on populations whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from perf.ab.findings import Findings
from perf.ab.interleave import Restart
from perf.ab.paired import UNKNOWN, Interval, hopeless, interval, judge, level, looks
from perf.outcome import Word

Draws = NDArray[np.float64]
THREE_PERCENT = math.log(1.03)


@pytest.mark.parametrize(
    ("values", "level", "centre", "half_width"),
    [
        ((0.01, 0.03), 0.05, 0.02, 12.7062 * 0.01),  # t(1) at 97.5 %, from a table; sd 0.01·√2
        ((0.0, 0.02, 0.04, 0.06), 0.01, 0.03, 5.8409 * math.sqrt(0.002 / 3 / 4)),  # t(3) at 99.5 %
        ((-0.5, -0.5, -0.5), 0.01, -0.5, 0.0),
    ],
)
def test_the_interval_is_students(values: tuple[float, ...], level: float, centre: float, half_width: float) -> None:
    found = interval(values, level)
    assert found.centre == pytest.approx(centre)
    assert found.half_width == pytest.approx(half_width, rel=1e-4)


@pytest.mark.parametrize("values", [(), (0.7,)])
def test_below_two_restarts_nothing_is_known(values: tuple[float, ...]) -> None:
    found = interval(values, 0.01)
    assert found == UNKNOWN
    assert judge(found, 0.03) is Word.INCONCLUSIVE
    assert found.smallest_visible == math.inf


def test_the_level_is_shared_by_tests_and_looks() -> None:
    assert level(tests=6, planned=(4, 6, 9, 14, 20)) == pytest.approx(0.01 / 30)


@pytest.mark.parametrize(
    ("restarts", "planned"),
    [(2, (2,)), (4, (4,)), (5, (4, 5)), (20, (4, 6, 9, 14, 20)), (50, (4, 6, 9, 14, 20, 28, 40, 50))],
)
def test_the_last_look_is_at_the_last_restart(restarts: int, planned: tuple[int, ...]) -> None:
    assert looks(restarts) == planned


def test_one_restart_cannot_be_planned() -> None:
    with pytest.raises(ValueError, match="1 restarts: 2 or more are wanted"):
        looks(1)


@pytest.mark.parametrize(
    ("centre", "half_width", "word"),
    [
        (math.log(1.03), 0.010, Word.REGRESSED),
        (-math.log(1.03), 0.010, Word.IMPROVED),  # 1/1.03 is as far as 1.03
        (math.log(1.20), 0.150, Word.REGRESSED),
        (math.log(1.20), 0.200, Word.INCONCLUSIVE),
        (0.000, 0.029, Word.SAME),
        (0.000, 0.031, Word.INCONCLUSIVE),
        (0.010, 0.001, Word.SAME),  # surely there, and below half of what may not pass
        (0.010, 0.025, Word.INCONCLUSIVE),
        (0.020, 0.001, Word.REGRESSED),
    ],
)
def test_words_at_a_resolution_of_three_percent(centre: float, half_width: float, word: Word) -> None:
    assert judge(Interval(centre, half_width, 0.001, 5), 0.03) is word


@pytest.mark.parametrize("centre", np.linspace(-0.06, 0.06, 25).tolist())
def test_an_interval_narrower_than_half_the_resolution_always_decides(centre: float) -> None:
    assert judge(Interval(centre, 0.499 * THREE_PERCENT, 0.001, 5), 0.03) is not Word.INCONCLUSIVE


def test_the_smallest_visible_change_is_seen_eight_times_in_ten() -> None:
    found = interval((0.01, 0.03), 0.05)
    assert found.smallest_visible == pytest.approx(
        math.expm1(12.7062 * 0.01 + 1.37638 * 0.01), rel=1e-4
    )  # t(1) at 80 %


def test_hopeless_is_a_spread_that_the_last_restart_cannot_mend() -> None:
    wide, narrow = (interval([sd * z for z in (-1, -1, -1, 1, 1, 1)], 0.002) for sd in (0.10, 0.01))
    assert hopeless(wide, 0.03, 0.002, restarts=20)
    assert not hopeless(narrow, 0.03, 0.002, restarts=20)
    assert not hopeless(wide, 0.30, 0.002, restarts=20)
    assert not hopeless(wide, 0.03, 0.002, restarts=6)  # that was the last: there is nothing to save


def test_what_looks_large_is_not_given_up() -> None:
    large = interval([0.5 + 0.1 * z for z in (-1, -1, -1, 1, 1, 1)], 1e-6)
    assert judge(large, 0.03) is Word.INCONCLUSIVE
    assert not hopeless(large, 0.03, 1e-6, restarts=20)


def test_a_word_once_given_stays_while_the_case_goes_on_for_its_other_clock() -> None:
    findings = Findings.of({"c/p/v/s/cpu": ["cpu_s", "latency_s"]})
    for restart in range(6):
        steady, noisy = 1e-4 * (-1) ** restart, 0.02 * (-1) ** restart
        later = 0.5 if restart >= 4 else 0.0
        ratios = {"cpu_s": Restart(1.0, 1.0, steady + later, 12), "latency_s": Restart(1.0, 1.0, noisy, 12)}
        findings.add("c/p/v/s/cpu", ratios)
        if restart + 1 in looks(20):
            findings.look(0.03, 20)
    assert [test.word for test in findings.all] == [Word.SAME, Word.INCONCLUSIVE]
    assert findings.all[0].found.df == 3, "the interval is the one that the word rests on"
    assert findings.open == ["c/p/v/s/cpu"]


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Draws:
    return rng.normal(size=shape)


def heavy_tail(rng: np.random.Generator, shape: tuple[int, int]) -> Draws:
    return rng.standard_t(3, size=shape) / math.sqrt(3)


def one_bad_in_ten(rng: np.random.Generator, shape: tuple[int, int]) -> Draws:
    drawn: Draws = rng.normal(size=shape) * np.where(rng.random(shape) < 0.1, 8.0, 1.0)
    return drawn


def two_modes(rng: np.random.Generator, shape: tuple[int, int]) -> Draws:
    """Each process, of either side, is slow three times in ten."""
    slow = [(rng.random(shape) < 0.3).astype(float) for _ in range(2)]
    drawn: Draws = 2.0 * (slow[0] - slow[1]) + 0.3 * rng.normal(size=shape)
    return drawn


def shared(rng: np.random.Generator, shape: tuple[int, int]) -> Draws:
    """What hits a pair of processes hits all of its cases."""
    return 0.9 * rng.normal(size=(1, shape[1])) + 0.4 * rng.normal(size=shape)


POPULATIONS = [normal, heavy_tail, one_bad_in_ten, two_modes, shared]


def words(ratios: Draws) -> list[Word]:
    """Of one command over `ratios` [tests, restarts], looked at as planned."""
    findings = Findings.of({f"c/p/v/s{i}/cpu": ["latency_s"] for i in range(len(ratios))})
    for restart in range(1, ratios.shape[1] + 1):
        for key in findings.open:
            index = int(key.split("/s")[1].split("/")[0])
            findings.add(key, {"latency_s": Restart(1.0, 1.0, float(ratios[index, restart - 1]), 12)})
        if restart in looks(ratios.shape[1]):
            findings.look(0.03, ratios.shape[1])
    return [test.word for test in findings.all]


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("sd", [0.004, 0.02])
def test_no_change_is_called_one_in_at_most_one_command_of_a_hundred(
    population: Callable[[np.random.Generator, tuple[int, int]], Draws], sd: float
) -> None:
    """Of 400 commands over six tests 4 may cry wolf; more than 11 would be odds of 1 in 1,000."""
    rng = np.random.default_rng(20)
    alarms = sum(bool({Word.REGRESSED, Word.IMPROVED} & set(words(sd * population(rng, (6, 20))))) for _ in range(400))
    assert alarms <= 11


@pytest.mark.parametrize("population", POPULATIONS)
def test_a_change_of_the_resolution_is_caught(
    population: Callable[[np.random.Generator, tuple[int, int]], Draws],
) -> None:
    """Where restarts repeat to 0.5 %, at least 95 of 100 slowdowns of 3 % are regressed, and at most 1 the same."""
    rng = np.random.default_rng(21)
    found = [word for _ in range(60) for word in words(THREE_PERCENT + 0.005 * population(rng, (6, 20)))]
    assert found.count(Word.REGRESSED) >= 0.95 * len(found)
    assert found.count(Word.SAME) <= 0.01 * len(found)


def test_a_change_too_small_for_the_noise_is_neither_called_nor_passed() -> None:
    rng = np.random.default_rng(22)
    found = [word for _ in range(60) for word in words(THREE_PERCENT + 0.10 * normal(rng, (6, 20)))]
    assert found.count(Word.INCONCLUSIVE) >= 0.95 * len(found)
    assert found.count(Word.SAME) == 0
