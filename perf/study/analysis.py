"""From recorded runs to findings: every rule over the same trials, for every metric and size of baseline."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import TypeVar

from perf.errors import CoregateError
from perf.judge.suite import per_test_level, shared_variance
from perf.judge.verdict import BUDGETS
from perf.outcome import LATENCY
from perf.report.cases import plural
from perf.study.excuses import Excuses
from perf.study.rates import AGAIN, Baselines, Outcome, Rate, Trial, any_alarm, at_random, in_order, judge_all, rate
from perf.study.records import Recorded, Seen
from perf.study.rules import Rule, rules

Key = TypeVar("Key", bound=Hashable)

BASELINES = (3, 5, 10)
"""Sizes; in place of the last one, where there are too few runs, the largest above the one before."""

TRIALS = 5
"""Baselines drawn for each judged run."""

SEED = 20
"""Of the draws, so that the report is the same each time."""


class TooFewError(CoregateError):
    """Fewer recorded runs than the smallest baseline, the run judged and its re-measurements take."""


@dataclass(frozen=True)
class Finding:
    """One rule on one metric, beside baselines of `k` runs. `drawn` and `ordered` are the false alarms of a whole run,
    with baselines drawn at random and with the k runs just before (None: too few runs). `caught` is by level, over all
    cases; `by_case` by case and level; `alarming` by case, without extra work. `budget` is set where the rule is ours,
    and `inconclusive` where that is more than 0 (beside nothing at all every noise is too much).
    """

    rule: str
    budget: float | None
    metric: str
    k: int
    drawn: Rate | None
    ordered: Rate | None
    inconclusive: Rate | None
    alarming: Mapping[str, Rate]
    caught: Mapping[float, Rate]
    by_case: Mapping[str, Mapping[float, Rate]]


@dataclass(frozen=True)
class Study:
    """All that is said of one machine class. `together` are the false alarms of ours at its default budgets on any
    metric, by k, drawn and in order. `visible` is the smallest change that ours would see 8 times in 10, by (metric, k)
    and case, the median over baselines. `achieved` is the median share of extra work by metric and wanted level.
    `moved` is how often a control case moved beside the k runs just before, by k (None: too few runs, or no controls).
    """

    machine_class: str
    runs: Sequence[Recorded]
    cases: tuple[str, ...]
    metrics: tuple[str, ...]
    levels: tuple[float, ...]
    findings: Sequence[Finding]
    together: Mapping[int, tuple[Rate, Rate | None]]
    visible: Mapping[tuple[str, int], Mapping[str, float]]
    achieved: Mapping[str, Mapping[float, float]]
    moved: Mapping[int, Rate | None]

    @property
    def injected(self) -> int:
        """Runs with extra work."""
        return sum(len(run.levels) > 1 for run in self.runs)

    def reaching(self, metric: str, level: float) -> int:
        """Cases that could be given extra work of this level."""
        return sum(any(case in run.seen(metric, level) for run in self.runs) for case in self.cases)

    def of(self, metric: str, k: int) -> list[Finding]:
        return [found for found in self.findings if (found.metric, found.k) == (metric, k)]


def study(runs: Sequence[Recorded]) -> Study:
    """Everything, for the runs of one machine class, oldest first.

    Raises:
        TooFewError: there are too few runs.
        CoregateError: they have no case in common.
    """
    fewest = BASELINES[0] + 1 + AGAIN
    if len(runs) < fewest:
        raise TooFewError(f"{plural(len(runs), 'recorded run')}: {fewest} or more are wanted: add some with --record N")
    cases, metrics = _common(runs)
    levels = tuple(sorted({level for run in runs for level in run.levels if level}))
    bench = Bench(runs, cases, metrics, levels)
    sizes = bench.sizes()
    return Study(
        machine_class=runs[0].machine_class,
        runs=runs,
        cases=cases,
        metrics=metrics,
        levels=levels,
        findings=[bench.finding(rule, metric, k) for metric in metrics for k in sizes for rule in bench.rules(metric)],
        together={k: bench.together(k) for k in sizes},
        visible={(metric, k): bench.visible(metric, k) for metric in metrics for k in sizes},
        achieved={metric: bench.achieved(metric) for metric in metrics},
        moved={k: bench.moved(k) for k in sizes},
    )


def _common(runs: Sequence[Recorded]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Cases and metrics that every run has without extra work."""
    names = [{metric for point in run.points for metric in point.metrics} for run in runs]
    metrics = sorted(set.intersection(*names), key=lambda name: (name != LATENCY, name))
    seen = [set(run.seen(metric, 0.0)) for run in runs for metric in metrics]
    cases = sorted(set.intersection(*seen)) if seen else []
    if not cases:
        raise CoregateError("the recorded runs have no case in common: record one selection of cases a file")
    return tuple(cases), tuple(metrics)


def _known(rates: Iterable[tuple[Key, Rate | None]]) -> dict[Key, Rate]:
    return {key: found for key, found in rates if found is not None}


@dataclass(frozen=True)
class Bench:
    """The recorded runs, and what every rule is asked of them."""

    runs: Sequence[Recorded]
    cases: tuple[str, ...]
    metrics: tuple[str, ...]
    levels: tuple[float, ...]
    learnt: dict[str, Baselines] = field(default_factory=dict)
    excuses: dict[str, Excuses] = field(default_factory=dict)

    @property
    def test_level(self) -> float:
        """As in the gate, every metric of every case is a test."""
        return per_test_level(len(self.cases) * len(self.metrics))

    def rules(self, metric: str) -> list[Rule]:
        """Those that can judge it: without samples within a run there is no test on them."""
        budget = BUDGETS.get(metric, BUDGETS[LATENCY])
        sampled = all(figures.samples for figures in self._seen(self.runs[0], metric, 0.0).values())
        return [rule for rule in rules(budget, self.test_level, shared_variance(metric)) if sampled or not rule.samples]

    def finding(self, rule: Rule, metric: str, k: int) -> Finding:
        drawn, ordered = self._alarms(rule, metric, k)
        caught = {level: outcome for level in self.levels if (outcome := self._detection(rule, metric, k, level))}
        return Finding(
            rule=rule.name,
            budget=rule.budget,
            metric=metric,
            k=k,
            drawn=drawn.alarm() if drawn else None,
            ordered=ordered.alarm() if ordered else None,
            inconclusive=drawn.inconclusive() if drawn and rule.budget else None,
            alarming=_known((case, drawn.caught(case)) for case in self.cases) if drawn else {},
            caught=_known((level, outcome.caught()) for level, outcome in caught.items()),
            by_case={
                case: _known((level, outcome.caught(case)) for level, outcome in caught.items()) for case in self.cases
            },
        )

    def together(self, k: int) -> tuple[Rate, Rate | None]:
        outcomes = [self._alarms(self.rules(metric)[0], metric, k) for metric in self.metrics]
        drawn = any_alarm([outcome for outcome, _ in outcomes if outcome])
        ordered = [outcome for _, outcome in outcomes if outcome]
        return drawn, any_alarm(ordered) if ordered else None

    def visible(self, metric: str, k: int) -> dict[str, float]:
        baselines = {trial.baseline for trial in self.drawn(k)}
        found = [self._baselines(metric)[runs].smallest_visible(self.test_level) for runs in sorted(baselines)]
        return {case: median(changes[case] for changes in found) for case in self.cases}

    def achieved(self, metric: str) -> dict[float, float]:
        points = [point for run in self.runs for point in run.points if point.case in self.cases]
        shares = {
            level: [point.achieved[metric] for point in points if point.wanted == level and metric in point.achieved]
            for level in self.levels
        }
        return {level: median(found) for level, found in shares.items() if found}

    def moved(self, k: int) -> Rate | None:
        excuses = self._excuses(self.metrics[0])
        trials = [t for t in self.ordered(k) if all(self.runs[run].controls for run in (t.judged, *t.baseline))]
        hits = sum(bool(excuses.machine(trial.judged, trial.baseline)) for trial in trials)
        return rate(hits / len(trials), len(trials)) if trials else None

    def sizes(self) -> list[int]:
        """Raises TooFewError where the runs fit for a baseline do not suffice for the smallest."""
        *smaller, largest = BASELINES
        found = [k for k in smaller if self.drawn(k)]
        found += [k for k in range(largest, smaller[-1], -1) if self.drawn(k)][:1]
        if not found:
            fit = sum(self.fit)
            others = f"others had the processor in all but {fit} of {plural(len(self.runs), 'recorded run')}"
            raise TooFewError(f"{others}; {smaller[0] + 1 + AGAIN} without are wanted: add some with --record N")
        return found

    @cached_property
    def fit(self) -> Sequence[bool]:
        """By run, whether the gate would take it into a baseline."""
        return [not run.disturbed for run in self.runs]

    def drawn(self, k: int) -> Sequence[Trial]:
        return at_random(self.fit, range(len(self.runs)), k, TRIALS, SEED)

    def ordered(self, k: int) -> Sequence[Trial]:
        return in_order(self.fit, k)

    def _alarms(self, rule: Rule, metric: str, k: int) -> tuple[Outcome | None, Outcome | None]:
        """Without extra work: with baselines drawn, and in order."""
        normal = {number: self._seen(run, metric, 0.0) for number, run in enumerate(self.runs)}
        schemes = (self.drawn(k), self.ordered(k))
        drawn, ordered = (
            judge_all(rule, trials, self._baselines(metric), normal, self._excuses(metric)) if trials else None
            for trials in schemes
        )
        return drawn, ordered

    def _detection(self, rule: Rule, metric: str, k: int, level: float) -> Outcome | None:
        slowed = {number: seen for number, run in enumerate(self.runs) if (seen := self._seen(run, metric, level))}
        trials = at_random(self.fit, slowed, k, TRIALS, SEED)
        return judge_all(rule, trials, self._baselines(metric), slowed, self._excuses(metric)) if trials else None

    def _baselines(self, metric: str) -> Baselines:
        if metric not in self.learnt:
            self.learnt[metric] = Baselines([self._seen(run, metric, 0.0) for run in self.runs])
        return self.learnt[metric]

    def _excuses(self, metric: str) -> Excuses:
        return self.excuses.setdefault(metric, Excuses([run.controls for run in self.runs], metric))

    def _seen(self, run: Recorded, metric: str, level: float) -> Seen:
        found = run.seen(metric, level)
        return {case: found[case] for case in self.cases if case in found}
