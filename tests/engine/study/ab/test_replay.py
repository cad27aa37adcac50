"""Replayed comparisons of restarts whose truth is known: words, rates, time, and where noise comes from."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from perf.ab.compare import Plan
from perf.errors import CoregateError
from perf.outcome import Word
from perf.study.ab.analysis import ALONE, DRAWN, ORDERED, TOGETHER, prove
from perf.study.ab.replay import at_level, drawn, in_order
from perf.study.ab.report import section, targets
from perf.study.ab.spread import correlation, independent_cases, spread
from perf.study.analysis import TooFewError
from tests.engine.study.ab.toys import BUILT_S, MEASURING_S, START_S, population, restart
from tests.engine.study.toys import key

FOREVER = 1e9
ONE_LOOK = Plan(restarts=4, budget_s=FOREVER)
"""One look, at four restarts, at the whole family's level of 1 %: two-sided, one test."""


def four_sigma(share: float, count: int) -> float:
    return 4 * math.sqrt(share * (1 - share) / count)


def test_no_change_is_called_one_as_often_as_its_level_says() -> None:
    """Noise far beyond the resolution, so that Student's interval alone decides."""
    found = in_order(at_level(population(8000, sigma=5.0), [key(0)], 0.0), ONE_LOOK)
    assert found is not None
    assert len(found.comparisons) == 2000
    words = [word for one in found.comparisons for word in one.words.values()]
    share = sum(word in (Word.REGRESSED, Word.IMPROVED) for word in words) / 2000
    assert share == pytest.approx(0.01, abs=four_sigma(0.01, 2000))


def test_a_slowdown_is_caught_as_often_as_the_noncentral_t_says() -> None:
    sigma, level = 0.008, 0.03
    expected = stats.nct.sf(stats.t.isf(0.005, 3), 3, 2 * math.log1p(level) / sigma)
    assert 0.3 < expected < 0.9
    found = in_order(at_level(population(8000, sigma, levels=(level,)), [key(0)], level), ONE_LOOK)
    assert found is not None
    caught = sum(Word.REGRESSED in one.words.values() for one in found.comparisons) / len(found.comparisons)
    assert caught == pytest.approx(expected, abs=four_sigma(expected, 2000))


def test_draws_are_with_replacement() -> None:
    """Of twenty restarts, ten of +10 % and ten of -10 %, two draws are alike half of the time, and only then there is a
    change."""
    restarts = at_level([restart(i, {0.0: [0.1 * (-1) ** i]}) for i in range(20)], [key(0)], 0.0)
    found = drawn(restarts, Plan(restarts=2, budget_s=FOREVER), draws=1000, alike=False)
    assert found is not None
    words = [next(iter(one.words.values())) for one in found.comparisons]
    for word, share in ((Word.REGRESSED, 0.25), (Word.IMPROVED, 0.25), (Word.INCONCLUSIVE, 0.5)):
        assert words.count(word) / 1000 == pytest.approx(share, abs=four_sigma(share, 1000))
    assert found.independent == 10.0  # twenty restarts make ten comparisons of two
    assert drawn(restarts[:19], ONE_LOOK, draws=1, alike=False) is None


def test_sides_that_are_alike_are_swapped_by_chance() -> None:
    """All twenty are 10 % slower: two draws swapped alike are a change, either way round."""
    restarts = at_level([restart(i, {0.0: [0.1]}) for i in range(20)], [key(0)], 0.0)
    found = drawn(restarts, Plan(restarts=2, budget_s=FOREVER), draws=1000, alike=True)
    assert found is not None
    words = [next(iter(one.words.values())) for one in found.comparisons]
    for word, share in ((Word.REGRESSED, 0.25), (Word.IMPROVED, 0.25), (Word.INCONCLUSIVE, 0.5)):
        assert words.count(word) / 1000 == pytest.approx(share, abs=four_sigma(share, 1000))


def test_time_is_that_of_the_cases_that_are_open() -> None:
    """The first case is decided at the first look, at four; the second, ±2.5 % in turns, only later."""
    restarts = [restart(i, {0.0: [0.1 + 1e-6 * i, 0.025 * (-1) ** i]}) for i in range(40)]
    found = in_order(at_level(restarts, [key(0), key(1)], 0.0), Plan(budget_s=FOREVER))
    assert found is not None
    (one, *_) = found.comparisons
    assert one.words[key(0), "latency_s"] is Word.REGRESSED
    assert one.restarts > 4
    case_s = BUILT_S + MEASURING_S
    assert one.seconds == pytest.approx(one.restarts * START_S + 4 * case_s + one.restarts * case_s)


def test_the_limit_in_minutes_holds() -> None:
    """A restart takes 13 s: after the second there is no time left, whatever the looks."""
    found = in_order(at_level(population(6, sigma=0.1), [key(0)], 0.0), Plan(budget_s=25.0))
    assert found is not None
    assert [(one.restarts, one.seconds) for one in found.comparisons] == [(2, 26.0)] * 3


def test_comparisons_in_order_share_no_restart_and_what_is_left_over_makes_none() -> None:
    """The first four are 10 % slower, the next four 10 % faster, and three are too few for a look."""
    ratios = [0.1] * 4 + [-0.1] * 4 + [0.1] * 3
    restarts = [restart(i, {0.0: [ratio + 1e-6 * i]}) for i, ratio in enumerate(ratios)]
    found = in_order(at_level(restarts, [key(0)], 0.0), Plan())
    assert found is not None
    assert [next(iter(one.words.values())) for one in found.comparisons] == [Word.REGRESSED, Word.IMPROVED]
    assert in_order(at_level(restarts[:3], [key(0)], 0.0), Plan()) is None


def test_equals_are_not_called_changed_and_three_per_cent_is_caught() -> None:
    """0.2 % of noise: 3 % is thirty standard errors of the first look's mean."""
    proof = prove(population(40, 0.002, levels=(0.0, 0.03), cases=3), draws=60)
    assert (proof.cases, proof.levels) == ((key(0), key(1), key(2)), (0.0, 0.03))
    for scope in (TOGETHER, ALONE):
        for taken in (DRAWN, ORDERED):
            equal, slowed = proof.tally(scope, taken, 0.0), proof.tally(scope, taken, 0.03)
            assert equal is not None
            assert slowed is not None
            assert equal.changed.share == equal.caught.share == 0.0
            assert slowed.caught.share == slowed.slower["latency_s"].share == 1.0
            assert slowed.restarts[1] <= 9
    assert all(": met; " in line for line in targets(proof))
    assert len(targets(proof)) == 4


def test_four_restarts_that_decide_nothing_are_said_to_be_too_few() -> None:
    proof = prove(population(4, 0.2, levels=(0.0, 0.03)))
    assert proof.tallies == []
    assert all("too few restarts" in line for line in targets(proof))
    assert "| case | clock |" in "\n".join(section(proof))


def test_noise_beyond_the_resolution_misses_the_target_and_names_itself() -> None:
    proof = prove(population(40, 0.2, levels=(0.0, 0.03)), draws=40)
    missed = [line for line in targets(proof) if "**missed** by" in line]
    assert len(missed) == 2
    assert f"the noise of a restart is {proof.spreads[0].total:.1%} in latency_s of {key(0)}" in missed[0]
    page = "\n".join(section(proof))
    assert "40 restarts of the working tree beside itself, 1 case; from 2026-01-01T00:00" in page


def test_each_case_by_itself_counts_as_one_where_all_go_alike() -> None:
    """Four restarts a comparison, 40 recorded, 3 cases: 30 independent comparisons, or 10 where one case is all."""
    alike = [restart(i, {0.0: [1e-4 * (-1) ** i] * 3}) for i in range(40)]
    tally = prove(alike, draws=3).tally(ALONE, ORDERED, 0.0)
    assert tally is not None
    assert (tally.comparisons, tally.restarts, tally.changed.runs) == (30, (4.0, 4.0), 10)
    assert tally.minutes[0] == pytest.approx(4 * (START_S + BUILT_S + MEASURING_S) / 60)


def test_a_level_that_a_case_lacks_is_said_of_the_others() -> None:
    restarts = [restart(i, {0.0: [1e-5 * (-1) ** i, 1e-4 * i], 0.03: [0.0296 + 1e-5 * i]}) for i in range(20)]
    proof = prove(restarts, draws=4)
    caught = proof.tally(TOGETHER, DRAWN, 0.03)
    assert caught is not None
    assert caught.caught.share == 1.0  # of the one case that has it
    assert proof.cases == (key(0), key(1))


def test_too_few_restarts_or_no_case_in_common_is_one_line() -> None:
    with pytest.raises(TooFewError, match="3 recorded restarts: 4 or more are wanted"):
        prove(population(3, 0.01))
    with pytest.raises(CoregateError, match="no case in common"):
        prove([*population(3, 0.01), restart(9, {})])


def test_what_two_levels_share_is_between_processes() -> None:
    """b = ±1 % is in both levels, e = ±0.2 % in neither the same; over four restarts all are orthogonal."""
    b = (0.01, 0.01, -0.01, -0.01)
    e0, e3 = (0.002, -0.002, 0.002, -0.002), (0.002, -0.002, -0.002, 0.002)
    slow = math.log1p(0.03)
    restarts = [restart(i, {0.0: [b[i] + e0[i]], 0.03: [slow + b[i] + e3[i]]}) for i in range(4)]
    found = spread(restarts, key(0), "latency_s", [0.03])
    assert found.between == pytest.approx(0.01 * math.sqrt(4 / 3))
    assert found.within == pytest.approx(0.002 * math.sqrt(4 / 3))
    assert found.total == pytest.approx(math.sqrt((0.01**2 + 0.002**2) * 4 / 3))
    assert found.seen == {0.03: pytest.approx(0.03)}
    assert found.best_s == pytest.approx(0.2 * math.sqrt(MEASURING_S * (START_S + BUILT_S)))
    assert spread(restarts, key(0), "latency_s", []).best_s is None


def test_correlation_between_cases() -> None:
    signs = [(1, 1, 1), (1, 1, -1), (-1, -1, 1), (-1, -1, -1)]
    restarts = [restart(i, {0.0: [0.01 * sign for sign in row]}) for i, row in enumerate(signs)]
    assert correlation(restarts, [key(0), key(1)], ["latency_s"]) == pytest.approx(1.0)
    assert correlation(restarts, [key(0), key(2)], ["latency_s"]) == pytest.approx(0.0)
    assert correlation(restarts, [key(0), key(1), key(2)], ["latency_s"]) == pytest.approx(1 / 3)
    assert independent_cases(12, 0.0) == 12
    assert independent_cases(12, 1.0) == 1
    assert independent_cases(12, -0.5) == 12
