"""Verdicts: one run's values beside the accepted runs, as words.

Where the noise between runs is known, from the case's own accepted runs or from those of all cases, it decides
(`perf.judge.noise`, `perf.judge.suite`). Where it is not (one or two runs, and too few other cases), the verdict is
provisional: by its ratio to the median, beyond the budget and nothing else. Either way a first value may be a suspect,
and what re-measuring says of it is in `again`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from perf.judge.drift import drift, drift_line
from perf.judge.noise import PROVISIONAL, Noise, change, estimate
from perf.judge.suite import is_hidden, is_suspect, judge_value, per_test_level, shared_variance
from perf.outcome import LATENCY, Row, Verdict, Word

Budgets = Mapping[str, Mapping[str, float]]
Again = Mapping[tuple[str, str], Sequence[float]]
"""(key, metric) → what fresh processes measured after the run did."""

BUDGETS: Mapping[str, float] = {
    "latency_s": 0.05,
    "device_s": 0.02,
    "cpu_s": 0.05,
    "host_instructions": 0.02,
    "cold_s": 0.15,
    "warm_s": 0.15,
    "artifacts_s": 0.15,
    "load_s": 0.15,
    "package_load_s": 0.15,
    "session_load_s": 0.15,
    "optimised_load_s": 0.15,
    "peak_bytes": 0.02,
    "nvml_peak_bytes": 0.05,
    "rss_peak_bytes": 0.2,
    "relative_error": 0.5,
    "task_loss": 0.5,
}
"""By how much a metric may grow; one that stands in no budget is kept and not judged. A core's own come first."""

SLACK: Mapping[str, float] = {"nvml_peak_bytes": 256 * 2**20}
"""What a metric may grow by, in its unit, where that is more than its budget: all that a process holds on the card has
in it what earlier cases made CUDA load, up to 101 MB of 1,189 in a night on an H100.
"""

OWED = ("device_s", "cpu_s", "cold_s", "warm_s")
"""What a case that once had it has each time: where it was not measured, something kept it from being seen. Others come
and go: memory that did not grow is no quantity, and counters of the processor are not everyone's.
"""

LEAST_DF = 2.0
"""Degrees of freedom from which a scale is worth judging by: with one, a bound at 1 % is 32 deviations away."""


@dataclass(frozen=True)
class Beside:
    """One metric of one case: this run's value and those of the accepted runs of the same workload, oldest first, all
    positive and in the metric's unit."""

    key: str
    metric: str
    now: float
    history: tuple[float, ...]
    budget: float

    def verdict(self, word: Word, note: str) -> Verdict:
        return Verdict(self.key, self.metric, word, self.now, median(self.history), self.budget, note)


Drifted = tuple[str, str, str]
"""Key, metric, and how far it is from where it began."""


@dataclass(frozen=True)
class Comparison:
    """What can be judged (`pairs`), what cannot (`apart`), and the noise of every metric of every case."""

    pairs: Sequence[Beside]
    apart: Sequence[Verdict]
    noise: Mapping[tuple[str, str], Noise]

    def verdicts(self, again: Again) -> list[Verdict]:
        """A word for each pair, in the order of the rows; then what could not be judged."""
        if not self.pairs:
            return list(self.apart)
        level = per_test_level(len(self.pairs))
        judged = (self._judged(pair, again.get((pair.key, pair.metric), ()), level) for pair in self.pairs)
        return [*judged, *self.apart]

    def _judged(self, pair: Beside, again: Sequence[float], level: float) -> Verdict:
        noise = self.noise[pair.key, pair.metric]
        if noise.df < LEAST_DF:
            return _provisional(pair, again)
        shared = shared_variance(pair.metric)
        found = pair.verdict(*judge_value([pair.now, *again], noise, pair.budget, level, shared))
        hidden = found.word is Word.INCONCLUSIVE and is_hidden([pair.now, *again], noise, pair.budget, level)
        return replace(found, hidden=hidden)

    def suspects(self) -> list[str]:
        """Keys with a metric that calls for a second look."""
        level = per_test_level(max(1, len(self.pairs)))
        return sorted({pair.key for pair in self.pairs if self._is_suspect(pair, level)})

    def _is_suspect(self, pair: Beside, level: float) -> bool:
        noise = self.noise[pair.key, pair.metric]
        if noise.df < LEAST_DF:
            return _provisional(pair, ()).word is Word.REGRESSED
        return is_suspect(pair.now, noise, pair.budget, level, shared_variance(pair.metric))

    def drifts(self) -> list[Drifted]:
        """Of each pair that is beyond its budget from the oldest accepted run."""
        found = ((pair, drift_line(drift(pair.history, pair.now), pair.budget)) for pair in self._settled())
        return [(pair.key, pair.metric, line) for pair, line in found if line]

    def _settled(self) -> Iterable[Beside]:
        return (pair for pair in self.pairs if len(pair.history) >= PROVISIONAL)


def compare(rows: Iterable[Row], baseline: Sequence[Mapping[str, Row]], own: Budgets) -> Comparison:
    """Lay each budgeted metric of each row beside the accepted runs (`baseline`, oldest first). `own` maps keys to
    budgets that override the defaults.
    """
    pairs: list[Beside] = []
    apart: list[Verdict] = []
    for row in rows:
        budgets = {**BUDGETS, **own.get(row.key, {})}
        for metric in (name for name in row.metrics if name in budgets and row.metrics[name] > 0):
            found = _beside(row, metric, baseline, budgets[metric])
            (pairs if isinstance(found, Beside) else apart).append(found)  # type: ignore[arg-type]
        apart += _unseen(row, baseline, budgets)
    return Comparison(pairs, apart, _noise(pairs, baseline))


def _beside(row: Row, metric: str, baseline: Sequence[Mapping[str, Row]], budget: float) -> Beside | Verdict:
    kept = [old for run in baseline if (old := run.get(row.key)) is not None and old.metrics.get(metric, 0) > 0]
    comparable = tuple(old.metrics[metric] for old in kept if old.workload == row.workload)
    if comparable:
        allowed = max(budget, SLACK.get(metric, 0.0) / median(comparable))
        return Beside(row.key, metric, row.metrics[metric], comparable, allowed)
    word = Word.INCOMPARABLE if kept else Word.NEW
    note = "the workload changed: accept a new run" if kept else "no run in the baseline has this"
    return Verdict(row.key, metric, word, row.metrics[metric], budget=budget, note=note)


def _unseen(row: Row, baseline: Sequence[Mapping[str, Row]], budgets: Mapping[str, float]) -> list[Verdict]:
    """Of what the newest accepted run of the same workload has and `row` lacks."""
    kept = next((old for run in reversed(baseline) if (old := run.get(row.key)) is not None), None)
    if kept is None or kept.workload != row.workload:
        return []
    note = "the accepted runs have it, and it was not measured this time"
    return [
        Verdict(row.key, metric, Word.INCONCLUSIVE, budget=budgets[metric], note=note)
        for metric in OWED
        if metric in budgets and kept.metrics.get(metric, 0) > 0 and not row.metrics.get(metric, 0) > 0
    ]


def _noise(pairs: Sequence[Beside], baseline: Sequence[Mapping[str, Row]]) -> dict[tuple[str, str], Noise]:
    """Of each metric, learnt from all cases that the baseline has, whether this run measured them or not."""
    found: dict[tuple[str, str], Noise] = {}
    for metric in {pair.metric for pair in pairs}:
        histories = {**_histories(metric, baseline), **{p.key: p.history for p in pairs if p.metric == metric}}
        found |= {(key, metric): noise for key, noise in estimate(histories).items()}
    return found


def _histories(metric: str, baseline: Sequence[Mapping[str, Row]]) -> dict[str, tuple[float, ...]]:
    """By key, the values of those runs that did the newest run's workload."""
    newest = {key: row.workload for run in baseline for key, row in run.items()}
    values: dict[str, list[float]] = {}
    for key, row in ((key, row) for run in baseline for key, row in run.items()):
        if row.workload == newest[key] and row.metrics.get(metric, 0) > 0:
            values.setdefault(key, []).append(row.metrics[metric])
    return {key: tuple(found) for key, found in values.items()}


def _provisional(pair: Beside, again: Sequence[float]) -> Verdict:
    """The budget is symmetric on the log scale: +5 % is regressed, 1/1.05 is improved. All values must be beyond it,
    and further from the accepted runs than either are from one another: of three values of one noisy machine that
    seldom holds by chance.
    """
    centre = math.log(median(pair.history))
    found = [math.log(value) - centre for value in (pair.now, *again)]
    note = f"provisional: {len(pair.history)} of {PROVISIONAL} runs in the baseline"
    if abs(found[0]) <= math.log1p(pair.budget):
        return pair.verdict(Word.SAME, note)
    word = Word.REGRESSED if found[0] > 0 else Word.IMPROVED
    nearest = min(math.copysign(1, found[0]) * value for value in found)
    apart = max(math.log1p(pair.budget), _range(found), _range(list(map(math.log, pair.history))))
    said = f"again {', '.join(f'{change(value):+.1%}' for value in found[1:])}" if again else ""
    return pair.verdict(word if nearest > apart else Word.INCONCLUSIVE, "; ".join(filter(None, [said, note])))


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def with_note(found: Verdict, note: str) -> Verdict:
    return replace(found, note="; ".join(filter(None, [found.note, note])))


def missing(expected: Iterable[tuple[str, str]]) -> list[Verdict]:
    """(key, why) of every case that the baseline has and this run owes."""
    return [Verdict(key, LATENCY, Word.MISSING, note=why) for key, why in expected]


def wrong(failed: Iterable[tuple[str, str]]) -> list[Verdict]:
    """(key, why) of every case that is not at parity, or did not build, and was therefore not timed."""
    return [Verdict(key, LATENCY, Word.WRONG, note=why) for key, why in failed]
