"""The rules that are compared, each a pure function over recorded values; all see the very same runs.

A rule first learns from a baseline, then judges a run beside it.
Only «slower» counts: `regressed` is an alarm, whatever the rule would say of a run that got faster.

* ours: `perf.judge`, with a budget; a suspect's re-measurements are the same cases in other recorded runs.
* pytest-benchmark's `--benchmark-compare-fail=mean:5%` (`median`, `min`): the new run's field is more than 5 % above
  that of the run that it is compared with: the newest saved one.
* TorchBench: a median more than 7 % above the last run's.
* asv's `compare` (asv.statistics.is_different, asv.commands.compare): medians apart by more than a factor of 1.1, and a
  two-sided Mann-Whitney U test on the samples of the two runs below 0.002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from perf.judge.controls import MOVED
from perf.judge.noise import SHARED, Noise, estimate, smallest_visible_change
from perf.judge.suite import is_suspect, judge_value
from perf.outcome import Word
from perf.study.records import Figures, Seen

Words = Mapping[str, Word]
Judge = Callable[[Seen, Sequence[Seen]], Words]
"""(the run, the same cases measured again) → the word of each case that the baseline has."""

PYTEST_BENCHMARK = 0.05
TORCHBENCH = 0.07
ASV_FACTOR = 1.1
ASV_LEVEL = 0.002


@dataclass(frozen=True)
class Baseline:
    """One metric of several accepted runs, oldest first."""

    runs: tuple[Seen, ...]

    @property
    def newest(self) -> Seen:
        return self.runs[-1]

    @cached_property
    def noise(self) -> Mapping[str, Noise]:
        """Of every case that all runs have, from their medians."""
        shared = [case for case in self.newest if all(case in run for run in self.runs)]
        return estimate({case: [run[case].median for run in self.runs] for case in shared})

    def smallest_visible(self, level: float) -> dict[str, float]:
        """By case, the smallest slowdown that one new run would show 8 times in 10, as the gate predicts it."""
        return {case: smallest_visible_change(noise, level) for case, noise in self.noise.items()}


@dataclass(frozen=True)
class Rule:
    """`learn(baseline)` is the judge that this rule makes of a baseline. `samples` is whether it reads the samples
    within a run, which not every metric has; `budget` is set where the rule is ours."""

    name: str
    learn: Callable[[Baseline], Judge]
    samples: bool = False
    budget: float | None = None


def ours(name: str, budget: float, level: float, shared: float = SHARED) -> Rule:
    """`budget` is the relative growth allowed; `level` that of one test (`perf.judge.suite.per_test_level`);
    `shared` what re-measurements have in common (`shared_variance`)."""

    def learn(baseline: Baseline) -> Judge:
        return partial(_ours, baseline.noise, budget, level, shared)

    return Rule(name, learn, budget=budget)


def _ours(
    noise: Mapping[str, Noise], budget: float, level: float, shared: float, new: Seen, again: Sequence[Seen]
) -> Words:
    return {
        case: _confirmed(figures, [run[case] for run in again if case in run], noise[case], budget, level, shared)
        for case, figures in new.items()
        if case in noise
    }


def _confirmed(
    first: Figures, again: Sequence[Figures], noise: Noise, budget: float, level: float, shared: float
) -> Word:
    """As the gate does it: only a suspect is measured again, and beside others' work no change is called one."""
    seen = [first, *again] if is_suspect(first.median, noise, budget, level, shared) else [first]
    word, _ = judge_value([figures.median for figures in seen], noise, budget, level, shared)
    return Word.INCONCLUSIVE if word in MOVED and any(figures.disturbed for figures in seen) else word


def threshold(name: str, statistic: Callable[[Figures], float], limit: float) -> Rule:
    """A fixed `limit` (0.05 is 5 %) on one number of the run, beside the newest accepted run alone."""

    def learn(baseline: Baseline) -> Judge:
        return partial(_beyond, baseline.newest, statistic, limit)

    return Rule(name, learn)


def _beyond(
    before: Seen, statistic: Callable[[Figures], float], limit: float, new: Seen, again: Sequence[Seen]
) -> Words:
    return {
        case: Word.REGRESSED if statistic(figures) / statistic(before[case]) - 1 > limit else Word.SAME
        for case, figures in new.items()
        if case in before
    }


def mann_whitney(name: str, factor: float, level: float) -> Rule:
    """Significant on the samples within the two runs, and beyond `factor` in the median."""

    def learn(baseline: Baseline) -> Judge:
        return partial(_significant, baseline.newest, factor, level)

    return Rule(name, learn, samples=True)


def _significant(before: Seen, factor: float, level: float, new: Seen, again: Sequence[Seen]) -> Words:
    return {
        case: Word.REGRESSED if _differs(before[case], figures, factor, level) else Word.SAME
        for case, figures in new.items()
        if case in before
    }


def _differs(before: Figures, now: Figures, factor: float, level: float) -> bool:
    if now.median <= factor * before.median:
        return False
    from scipy import stats  # a second or more to import, and most pairs never get here

    return bool(stats.mannwhitneyu(before.samples, now.samples, alternative="two-sided").pvalue < level)


def median_of(figures: Figures) -> float:
    return figures.median


def mean_of(figures: Figures) -> float:
    return figures.mean


def min_of(figures: Figures) -> float:
    return figures.min


def rules(budget: float, level: float, shared: float) -> list[Rule]:
    """All that are compared on one metric whose default budget is `budget`; ours first. Arguments as for `ours`."""
    return [
        ours(f"coregate, budget {budget:.0%}", budget, level, shared),
        ours("coregate, budget 0", 0.0, level, shared),
        threshold("pytest-benchmark mean:5%", mean_of, PYTEST_BENCHMARK),
        threshold("pytest-benchmark median:5%", median_of, PYTEST_BENCHMARK),
        threshold("pytest-benchmark min:5%", min_of, PYTEST_BENCHMARK),
        threshold("TorchBench 7%", median_of, TORCHBENCH),
        mann_whitney("Mann-Whitney, factor 1.1", ASV_FACTOR, ASV_LEVEL),
    ]
