"""One run's tests as words: the level of each, so that the whole suite rarely cries wolf, and the word of each.

*Level.* Bonferroni: with m tests (case × metric with a noise model) each has the level 1 %/m, and the chance that any
calls an unchanged case slower is at most 1 % however the tests depend on one another. Šidák's 1 - (1 - 1 %)^(1/m) is
0.5 % larger, and needs independence or positive dependence. Holm's steps gain only where many cases regress at once,
and would make a case's limit depend on its neighbours, and so its smallest visible change.
Exact counters are no tests and spend nothing. Improvements have the same level of their own: no run fails by them.

*Confirmation.* This is double sampling (Dodge & Romig 1929). A first value beyond its budget, and beyond what one
unchanged case a run is by chance (`suspect_level`; more in `is_suspect`), is a suspect and is measured again in fresh
processes. It is `regressed` where the mean of all values is beyond the budget and that mean's bound, their median
beyond the budget, and each re-measurement above the bound at 5 %. The mean of several varies less than one value, but
not as much less as if they were independent: minutes later the same may still ail the machine. Kernel times are taken
to share half of their variance (`SHARED`), what waits for the host all of it: then the bound is that of one run, and
the 1 % holds however dependent they are. Where they share less, false alarms fall far below the 1 %
(`perf.judge.noise`), and power grows: a slowdown of `smallest_visible_change` is beyond the bound at once in 80 % of
runs, and in kernel time `regressed` after two re-measurements in 96 % (k = 1) to 98 % (k = 20; normal noise). If kernel
times shared all of their variance, 1.5 % (k = 3) to 3.3 % (k = 20) of runs would cry wolf.

*What the 1 % rests on.* Baseline and new run are alike but for the change, and the scales of a pool are independent.
One machine effect on all cases breaks the latter: where it is 90 % of the variance, 3 % of runs have a false suspect at
k = 3, 2.4 % at k = 5, 0.5 % at k = 20 (12 cases), and re-measuring on that machine does not help. Controls tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perf.disturbance import DEVICE
from perf.judge.noise import PROVISIONAL, SHARED, Array, Noise, bound, change, log_values, smallest_visible_change
from perf.outcome import Word

SUITE_LEVEL = 0.01
"""How often a whole run may call something slower though nothing changed."""

CONFIRMATION_LEVEL = 0.05
"""Level of the bound that each re-measurement of a suspect must exceed."""

HIDDEN_AT_MOST = 0.5
"""However noisy what waits for the host is, a growth of more than this over the slowest accepted run is looked at
again, and does not pass as noise if it stays. Over their median it cried wolf: on a host that launches twice as
slowly in one process as in the next, three nights of one commit had a latency that stayed 59 to 88 % above the median,
and 21 % at most above the slowest of the six accepted runs."""

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


def suspect_level(level: float) -> float:
    """The level at which a first value calls for a second look, where one test's is `level`: in the mean one unchanged
    case a run, and no more than one test in twenty."""
    return min(CONFIRMATION_LEVEL, level / SUITE_LEVEL)


def is_suspect(new: float, noise: Noise, budget: float, level: float, shared: float = SHARED) -> bool:
    """Whether a run's value is to be measured again, because it may be slower. Arguments as for `judge_value`. Where
    all of the variance is shared, another look tells no more than the first, and only what noise does not hide calls
    for it: a night on a slower host would measure nearly all of its latencies three times.
    """
    ahead = float(log_values(new, "this run")[0]) - noise.centre
    called_for = bound(noise, suspect_level(level)) if shared < 1 else _hides(noise, level)
    return ahead > max(math.log1p(budget), called_for)


def shared_variance(metric: str) -> float:
    """What a run and its re-measurements are taken to have in common of this metric's variance."""
    return SHARED if metric in DEVICE else 1.0


def judge_value(
    new: float | Sequence[float], noise: Noise, budget: float, level: float, shared: float = SHARED
) -> tuple[Word, str]:
    """The word for one metric of one case, and why. `new` is the run's value, or that and its re-measurements in fresh
    processes, in the history's unit. `budget` is the relative growth allowed (0.05 is 5 %), as a shrinkage on logs too.
    `shared` is theirs (`shared_variance`). A single value is judged alone; `is_suspect` says whether it calls for more.

    `inconclusive` is a noise that hides a change of the budget's size (`smallest_visible_change` is larger), or values
    that contradict each other.

    Raises:
        ValueError: a value is not positive and finite, the budget is negative, or the level is not in (0, 0.5).
    """
    if budget < 0:
        raise ValueError(f"budget {budget!r}: 0 or more is wanted")
    distances = log_values(new, "this run") - noise.centre
    word, why = _word(distances, noise, budget, level, shared)
    return word, "; ".join(filter(None, [why, _provisional(noise)]))


def is_hidden(new: float | Sequence[float], noise: Noise, budget: float, level: float) -> bool:
    """Whether the median of a run's value and its re-measurements is no further above the centre than the budget, or
    than the noise of one run explains; half as much again as the slowest accepted run is never hidden. Arguments as for
    `judge_value`.
    """
    ahead = float(np.median(log_values(new, "this run"))) - noise.centre
    return ahead <= max(math.log1p(budget), _hides(noise, level))


def _hides(noise: Noise, level: float) -> float:
    return min(bound(noise, level), noise.highest - noise.centre + math.log1p(HIDDEN_AT_MOST))


def _word(distances: Array, noise: Noise, budget: float, level: float, shared: float) -> tuple[Word, str]:
    limit, seen = math.log1p(budget), bound(noise, level)
    for word, ahead in {Word.REGRESSED: distances, Word.IMPROVED: -distances}.items():
        if float(np.median(ahead)) <= limit:
            continue
        called_for = ahead[0] > max(limit, bound(noise, suspect_level(level)))
        borne_out = bool(np.all(ahead[1:] > bound(noise, CONFIRMATION_LEVEL)))
        if called_for and borne_out and float(np.mean(ahead)) > max(limit, bound(noise, level, len(ahead), shared)):
            return word, _values(distances)
        if ahead[0] > max(limit, seen):
            return Word.INCONCLUSIVE, _values(distances)
    smallest = smallest_visible_change(noise, level)
    if smallest > budget:
        return Word.INCONCLUSIVE, f"{_values(distances)}; {_too_noisy(budget, smallest)}"
    return Word.SAME, _values(distances) if len(distances) > 1 else ""


def _values(distances: Array) -> str:
    """`+8.3%`, and after re-measuring `+8.3%, again +0.2%, +0.1%`."""
    first, *again = (f"{change(distance):+.1%}" for distance in distances)
    return f"{first}, again {', '.join(again)}" if again else first


def _too_noisy(budget: float, smallest: float) -> str:
    if smallest > TELLING:
        return "the noise is not known yet: accept more runs"
    return f"too noisy for a budget of {budget:.1%}: +{smallest:.1%} would be seen 8 times in 10"


def _provisional(noise: Noise) -> str:
    return f"provisional: {noise.runs} of {PROVISIONAL} runs in the baseline" if noise.runs < PROVISIONAL else ""
