"""Each rule on numbers that a person can check."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from perf.outcome import Word
from perf.study.records import Figures
from perf.study.rules import Baseline, Rule, mann_whitney, mean_of, median_of, min_of, ours, rules, threshold
from tests.engine.study.toys import flat

STEADY = [1.000, 1.001, 0.999, 1.0005, 0.9995]


def word(rule: Rule, baseline: Sequence[Figures], new: Figures, again: Sequence[Figures] = ()) -> Word:
    judge = rule.learn(Baseline(tuple({"a": figures} for figures in baseline)))
    return judge({"a": new}, [{"a": figures} for figures in again])["a"]


@pytest.mark.parametrize(
    ("statistic", "said"), [(mean_of, Word.REGRESSED), (median_of, Word.SAME), (min_of, Word.SAME)]
)
def test_a_threshold_reads_its_own_number(statistic: Callable[[Figures], float], said: Word) -> None:
    before = Figures(median=2.0, mean=4.0, min=1.0)
    new = Figures(median=2.099, mean=4.201, min=1.049)  # +4.95 %, +5.025 %, +4.9 %
    assert word(threshold("", statistic, 0.05), [before], new) is said


def test_a_threshold_looks_at_the_newest_run_alone() -> None:
    rule = threshold("", median_of, 0.05)
    assert word(rule, [flat(2.0), flat(1.0)], flat(1.06)) is Word.REGRESSED
    assert word(rule, [flat(1.0), flat(2.0)], flat(1.06)) is Word.SAME


def test_faster_is_no_alarm() -> None:
    quick = flat(0.5, [0.5] * 20)
    before = [flat(value, [value] * 20) for value in STEADY]
    assert not [
        rule.name for rule in rules(0.05, 1e-3, 1.0) if word(rule, before, quick, [quick, quick]) is Word.REGRESSED
    ]


# U of 20 against 20 is 0 where the samples are apart: z = 200 / sqrt(400 * 41 / 12) = 5.4, far below 0.002. Where every
# other sample is as before, U = 100 + 50 for ties: p is about 0.0005 and 0.17 for 10 and 3 of 20.
@pytest.mark.parametrize(
    ("median", "moved", "said"),
    [
        (1.11, 20, Word.REGRESSED),
        (1.09, 20, Word.SAME),  # significant, within the factor
        (1.11, 3, Word.SAME),  # beyond the factor, not significant
    ],
)
def test_mann_whitney_needs_both(median: float, moved: int, said: Word) -> None:
    before = flat(1.0, [1 + i / 1000 for i in range(20)])
    samples = [(1.2 if i < moved else 1.0) + i / 1000 for i in range(20)]
    assert word(mann_whitney("", 1.1, 0.002), [before], flat(median, samples)) is said


@pytest.mark.parametrize(
    ("new", "again", "said"),
    [
        (1.10, (1.10, 1.10), Word.REGRESSED),
        (1.10, (1.10, 1.00), Word.INCONCLUSIVE),  # not borne out
        (1.00, (1.10, 1.10), Word.SAME),  # no suspect: the others are not looked at
        (1.04, (1.04, 1.04), Word.SAME),  # certain, but within the budget
    ],
)
def test_ours_measures_a_suspect_again(new: float, again: Sequence[float], said: Word) -> None:
    rule = ours("", 0.05, 1e-3)
    assert word(rule, list(map(flat, STEADY)), flat(new), list(map(flat, again))) is said


def test_without_a_budget_what_is_certain_is_called() -> None:
    new = flat(1.04)
    assert word(ours("", 0.0, 1e-3), list(map(flat, STEADY)), new, [new, new]) is Word.REGRESSED


def test_a_case_that_one_run_lacks_is_not_judged() -> None:
    baseline = Baseline(({"a": flat(1.0), "b": flat(1.0)}, {"a": flat(1.0)}))
    for rule in rules(0.05, 1e-3, 1.0):
        assert set(rule.learn(baseline)({"a": flat(1.0), "b": flat(1.0)}, [])) == {"a"}


def test_the_smallest_visible_change_grows_with_the_noise() -> None:
    runs = [{"a": flat(1 + step), "b": flat(1 + 10 * step)} for step in (-0.001, 0.0, 0.001, 0.0005, -0.0005)]
    found = Baseline(tuple(runs)).smallest_visible(
        1e-3
    )  # two cases: no pool, so ten times the spread is ten times the bound
    assert found["b"] / found["a"] == pytest.approx(10, rel=0.5)
