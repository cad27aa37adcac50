"""False alarms of a whole run, and what is caught of each injected slowdown, from recorded runs and one rule.

One trial judges one recorded run beside a baseline of k other runs, and re-measures its suspects in two runs more; the
three sets never share a run. `at_random` draws baselines from all runs, whatever their order: what the rule does on
this noise. `in_order` takes the k runs just before, and re-measures in the two just after: what a user sees, drift
included.

Trials of one judged run are averaged, and only then counted: the interval of a rate is that of so many independent runs
as were judged, not of all trials. It is Clopper and Pearson's (1934), from the beta distribution, which takes the
fractional count that the averaging makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import special

from perf.outcome import Word
from perf.study.excuses import Excuses
from perf.study.records import Seen
from perf.study.rules import Baseline, Rule, Words

AGAIN = 2
"""Fresh processes that measure a suspect again, as the gate's default."""

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Trial:
    """Positions in the list of recorded runs; `baseline` oldest first."""

    judged: int
    baseline: tuple[int, ...]
    again: tuple[int, ...]


@dataclass(frozen=True)
class Rate:
    """A share between 0 and 1 of `runs` judged runs, with its 95 % interval."""

    share: float
    runs: int
    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """What one rule says over trials: the words of each trial, beside the run that was judged in it."""

    trials: tuple[Trial, ...]
    words: tuple[Words, ...]

    def rate(self, counts: Callable[[Words], float], of: str | None = None) -> Rate | None:
        """The mean of `counts` (0 to 1) over runs, each run's trials averaged first; of those trials that judge the
        case `of`, or any case. None where none does."""
        by_run: dict[int, list[float]] = {}
        for trial, words in zip(self.trials, self.words, strict=True):
            if of in words or (of is None and words):
                by_run.setdefault(trial.judged, []).append(counts(words))
        return rate(fmean(map(fmean, by_run.values())), len(by_run)) if by_run else None

    @property
    def alarms(self) -> tuple[bool, ...]:
        """By trial, whether any case is called slower."""
        return tuple(Word.REGRESSED in words.values() for words in self.words)

    def alarm(self) -> Rate | None:
        return self.rate(lambda words: float(Word.REGRESSED in words.values()))

    def inconclusive(self) -> Rate | None:
        """The share of a run's cases that are `inconclusive`."""
        return self.rate(lambda words: fmean(word is Word.INCONCLUSIVE for word in words.values()))

    def caught(self, case: str | None = None) -> Rate | None:
        """How often `case` is called slower; without one, the mean over all cases, which are not independent: its
        interval is still that of the runs."""
        if case is None:
            return self.rate(lambda words: fmean(word is Word.REGRESSED for word in words.values()))
        return self.rate(lambda words: float(words[case] is Word.REGRESSED), case)


def rate(share: float, runs: int) -> Rate:
    """Clopper–Pearson's interval of `share` × `runs` hits, which may be a fraction, in `runs` runs."""
    hits, tail = share * runs, (1 - CONFIDENCE) / 2
    low = 0.0 if hits <= 0 else float(special.betaincinv(hits, runs - hits + 1, tail))
    high = 1.0 if hits >= runs else float(special.betaincinv(hits + 1, runs - hits, 1 - tail))
    return Rate(share, runs, low, high)


def any_alarm(outcomes: Sequence[Outcome]) -> Rate:
    """Of one rule over several metrics on the same trials: how often any metric of any case is called slower."""
    together = [any(alarms) for alarms in zip(*(outcome.alarms for outcome in outcomes), strict=True)]
    by_run: dict[int, list[bool]] = {}
    for trial, alarm in zip(outcomes[0].trials, together, strict=True):
        by_run.setdefault(trial.judged, []).append(alarm)
    return rate(fmean(map(fmean, by_run.values())), len(by_run))


def at_random(fit: Sequence[bool], judged: Iterable[int], k: int, times: int, seed: int) -> tuple[Trial, ...]:
    """`times` trials of each run in `judged`, which also are the runs that may measure again; baselines of `k` come
    from all runs that are `fit` for one. None where there are too few.
    """
    dice, pool = np.random.default_rng(seed), sorted(judged)
    if len(pool) < 1 + AGAIN or sum(fit) < k + 1 + AGAIN:
        return ()
    return tuple(_drawn(dice, fit, pool, k, one) for one in pool for _ in range(times))


def _drawn(dice: np.random.Generator, fit: Sequence[bool], pool: Sequence[int], k: int, judged: int) -> Trial:
    again = dice.choice([other for other in pool if other != judged], AGAIN, replace=False).tolist()
    others = [other for other, good in enumerate(fit) if good and other != judged and other not in again]
    return Trial(judged, tuple(sorted(dice.choice(others, k, replace=False).tolist())), tuple(again))


def in_order(fit: Sequence[bool], k: int) -> tuple[Trial, ...]:
    """One trial of each run that has `k` runs fit for a baseline before it, and two runs after it."""
    before = ((one, [run for run in range(one) if fit[run]]) for one in range(len(fit) - AGAIN))
    return tuple(
        Trial(one, tuple(good[-k:]), tuple(range(one + 1, one + 1 + AGAIN))) for one, good in before if len(good) >= k
    )


class Baselines:
    """Baselines by the positions of their runs among all runs without extra work; each is learnt from once, whatever
    the rule and the level that ask for it.
    """

    def __init__(self, normal: Sequence[Seen]) -> None:
        self._normal = normal
        self._made: dict[tuple[int, ...], Baseline] = {}

    def __getitem__(self, runs: tuple[int, ...]) -> Baseline:
        if runs not in self._made:
            self._made[runs] = Baseline(tuple(self._normal[run] for run in runs))
        return self._made[runs]


def judge_all(
    rule: Rule,
    trials: Sequence[Trial],
    baselines: Baselines,
    changed: Mapping[int, Seen],
    excuses: Excuses | None = None,
) -> Outcome:
    """The words of every trial. `changed` maps positions to what is judged and measured again: the same runs as in
    baselines, or what they saw with extra work. A case is judged where all of them have it. `excuses` hold for our rule
    alone; no other one knows controls.
    """
    return Outcome(tuple(trials), tuple(_words(rule, trial, baselines, changed, excuses) for trial in trials))


def _words(
    rule: Rule, trial: Trial, baselines: Baselines, changed: Mapping[int, Seen], excuses: Excuses | None
) -> Words:
    again = [changed[run] for run in trial.again]
    new = {case: seen for case, seen in changed[trial.judged].items() if all(case in other for other in again)}
    baseline = baselines[trial.baseline]
    words = rule.learn(baseline)(new, again)
    if rule.budget is None or excuses is None:
        return words
    return excuses.applied(words, excuses.machine(trial.judged, trial.baseline), new, baseline, rule.budget)
