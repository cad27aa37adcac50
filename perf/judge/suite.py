"""One run's tests as words: the level of each, so that the whole suite rarely cries wolf, and the word of each.

*Level.* Bonferroni: with m tests (case × metric with a noise model) each has the level 1 %/m, and the chance that any
calls an unchanged case slower is at most 1 % however the tests depend on one another. Šidák's 1 - (1 - 1 %)^(1/m) is
0.5 % larger, and needs independence or positive dependence. Holm's steps gain only where many cases regress at once,
and would make a case's limit depend on its neighbours, and so its smallest visible change.
Exact counters are no tests and spend nothing. Improvements have the same level of their own: no run fails by them.

*Confirmation.* A suspect is a first value beyond its budget and its bound; it is measured again in fresh processes. It
is `regressed` where the median of all values is beyond the budget and each re-measurement above the bound at 5 %. What
is regressed is then a subset of the suspects, so the 1 % holds however a run depends on its re-measurements minutes
later. No level is traded for power: it would be lost where they are dependent. Where they are independent, false alarms
fall further, 2 to 30 times (`perf.judge.noise`), and power hardly: a slowdown of `smallest_visible_change` is a suspect
in 80 % of runs and, after two re-measurements, regressed in 79 to 80 % (normal noise).

*What the 1 % rests on.* Baseline and new run are alike but for the change, and the scales of a pool are independent.
One machine effect on all cases breaks the latter: where it is 90 % of the variance, 3 % of runs have a false suspect at
k = 3, 2.4 % at k = 5, 0.5 % at k = 20 (12 cases), and re-measuring on that machine does not help. Controls tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perf.judge.noise import PROVISIONAL, Array, Noise, bound, log_values, smallest_visible_change
from perf.outcome import Word

SUITE_LEVEL = 0.01
"""How often a whole run may call something slower though nothing changed."""

CONFIRMATION_LEVEL = 0.05
"""Level of the bound that each re-measurement of a suspect must exceed."""

TELLING = 9.0
"""A smallest visible change beyond this (ten times slower) is not worth a figure."""


def per_test_level(tests: int, suite_level: float = SUITE_LEVEL) -> float:
    """The level of each of `tests` tests of one run.

    Raises:
        ValueError: there is no test.
    """
    if tests < 1:
        raise ValueError(f"{tests} tests: a level is for 1 or more")
    return suite_level / tests


def judge_value(new: float | Sequence[float], noise: Noise, budget: float, level: float) -> tuple[Word, str]:
    """The word for one metric of one case, and why. `new` is the run's value, or that and its re-measurements in fresh
    processes, in the history's unit. `budget` is the relative growth allowed (0.05 is 5 %), as a shrinkage on logs too.
    A single value that is `regressed` or `improved` is a suspect: measure it again.

    `inconclusive` is a noise that hides a change of the budget's size (`smallest_visible_change` is larger), or values
    that contradict each other.

    Raises:
        ValueError: a value is not positive and finite, the budget is negative, or the level is not in (0, 0.5).
    """
    if budget < 0:
        raise ValueError(f"budget {budget!r}: 0 or more is wanted")
    distances = log_values(new, "this run") - noise.centre
    word, why = _word(distances, noise, budget, level)
    return word, "; ".join(filter(None, [why, _provisional(noise)]))


def _word(distances: Array, noise: Noise, budget: float, level: float) -> tuple[Word, str]:
    limit, seen = math.log1p(budget), bound(noise, level)
    suspect = {Word.REGRESSED: distances, Word.IMPROVED: -distances}
    for word, ahead in suspect.items():
        beyond = float(np.median(ahead)) > limit
        if ahead[0] > max(limit, seen) and beyond:
            confirmed = bool(np.all(ahead[1:] > bound(noise, CONFIRMATION_LEVEL)))
            return (word if confirmed else Word.INCONCLUSIVE), _values(distances)
    smallest = smallest_visible_change(noise, level)
    if smallest > budget:
        return Word.INCONCLUSIVE, f"{_values(distances)}; {_too_noisy(budget, smallest)}"
    return Word.SAME, _values(distances) if len(distances) > 1 else ""


def _values(distances: Array) -> str:
    """`+8.3%`, and after re-measuring `+8.3%, again +0.2%, +0.1%`."""
    first, *again = (f"{math.expm1(distance):+.1%}" for distance in distances)
    return f"{first}, again {', '.join(again)}" if again else first


def _too_noisy(budget: float, smallest: float) -> str:
    if smallest > TELLING:
        return "the noise is not known yet: accept more runs"
    return f"too noisy for a budget of {budget:.1%}: +{smallest:.1%} would be seen 8 times in 10"


def _provisional(noise: Noise) -> str:
    return f"provisional: {noise.runs} of {PROVISIONAL} runs in the baseline" if noise.runs < PROVISIONAL else ""
