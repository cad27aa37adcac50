"""From recorded restarts to what `python -m perf ab` says of them: how often, and after how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from perf.ab.compare import Plan
from perf.ab.paired import LOOKS
from perf.errors import CoregateError
from perf.outcome import Word
from perf.report.cases import plural
from perf.study.ab.records import Recorded
from perf.study.ab.replay import Comparison, Replayed, at_level, clocks_of, drawn, in_order
from perf.study.ab.spread import Spread, correlation, independent_cases, spread
from perf.study.analysis import TooFewError
from perf.study.rates import Rate, rate

DRAWS = 1000
"""Comparisons drawn at each level, over all selections of cases."""

DEFAULT = Plan()
"""Of a command without options."""

CHANGES = (Word.REGRESSED, Word.IMPROVED)
TOGETHER, ALONE = "all cases", "one case"
DRAWN, ORDERED = "drawn", "in order"


@dataclass(frozen=True)
class Tally:
    """Comparisons of one `scope` (all cases in one command, or each by itself) at one level, `taken` in one way.

    `changed` is how often anything is called `regressed` or `improved`. By clock: how often a case is called
    `regressed`, and how often it is left `inconclusive`; `caught` is how often it is `regressed` by any clock: what the
    exit status goes by. `restarts` and `minutes` are (median, 90th percentile) until the last word.
    """

    scope: str
    taken: str
    level: float
    comparisons: int
    changed: Rate
    caught: Rate
    slower: Mapping[str, Rate]
    inconclusive: Mapping[str, Rate]
    restarts: tuple[float, float]
    minutes: tuple[float, float]


@dataclass(frozen=True)
class Proof:
    """All that is said of one machine class. `levels` has 0 first; `correlation` is that between cases."""

    machine_class: str
    restarts: Sequence[Recorded]
    plan: Plan
    cases: tuple[str, ...]
    clocks: tuple[str, ...]
    levels: tuple[float, ...]
    correlation: float
    tallies: Sequence[Tally]
    spreads: Sequence[Spread]

    def tally(self, scope: str, taken: str, level: float) -> Tally | None:
        wanted = (scope, taken, level)
        return next((one for one in self.tallies if (one.scope, one.taken, one.level) == wanted), None)


def prove(restarts: Sequence[Recorded], plan: Plan = DEFAULT, draws: int = DRAWS) -> Proof:
    """Everything, for the restarts of one machine class, oldest first.

    Raises:
        TooFewError: there are fewer restarts than the first look of a comparison wants.
        CoregateError: they have no case in common.
    """
    if len(restarts) < LOOKS[0]:
        wanted = f"{LOOKS[0]} or more are wanted: add some with --record-ab N"
        raise TooFewError(f"{plural(len(restarts), 'recorded restart')}: {wanted}")
    cases = sorted(set.intersection(*(set(restart.at_level(0.0)) for restart in restarts)))
    if not cases:
        raise CoregateError("the recorded restarts have no case in common: record one selection of cases a file")
    levels = sorted({point.wanted for restart in restarts for point in restart.points})
    own = clocks_of(at_level(restarts, cases, 0.0))
    clocks = list(dict.fromkeys(clock for found in own.values() for clock in found))
    shared = correlation(restarts, cases, [clock for clock in clocks if all(clock in found for found in own.values())])
    return Proof(
        machine_class=restarts[0].machine_class,
        restarts=restarts,
        plan=plan,
        cases=tuple(cases),
        clocks=tuple(clocks),
        levels=tuple(levels),
        correlation=shared,
        tallies=list(_tallies(restarts, cases, levels, plan, shared, draws)),
        spreads=[spread(restarts, case, clock, levels[1:]) for case in cases for clock in own[case]],
    )


def _tallies(
    restarts: Sequence[Recorded], cases: Sequence[str], levels: Sequence[float], plan: Plan, shared: float, draws: int
) -> Iterator[Tally]:
    for level in levels:
        reached = _reached(restarts, cases, level)
        singles = [[case] for case in reached]
        for scope, selections in ((TOGETHER, [reached]), (ALONE, singles)) if reached else ():
            counted = independent_cases(len(selections), shared)
            chosen = [at_level(restarts, keys, level) for keys in selections]
            each = max(1, draws // len(selections))
            for taken, found in (
                (ORDERED, [in_order(timed, plan) for timed in chosen if timed]),
                (DRAWN, [drawn(timed, plan, each, alike=not level) for timed in chosen]),
            ):
                if replayed := [one for one in found if one]:
                    yield tally(scope, taken, level, replayed, counted / len(selections))


def _reached(restarts: Sequence[Recorded], cases: Sequence[str], level: float) -> list[str]:
    """Cases that could be given the level, but for a restart here and there."""
    counts = {case: sum(case in restart.at_level(level) for restart in restarts) for case in cases}
    return [case for case in cases if counts[case] > max(counts.values()) / 2]


def tally(scope: str, taken: str, level: float, found: Sequence[Replayed], counted: float) -> Tally:
    """Of `found`, one a selection of cases, of which each counts as so many that are independent of the others."""
    runs = max(1, int(counted * sum(one.independent for one in found)))
    clocks = list(dict.fromkeys(clock for one in found for _, clock in one.comparisons[0].words))

    def of(counts: Callable[[Comparison], float]) -> Rate:
        return rate(fmean(fmean(map(counts, one.comparisons)) for one in found), runs)

    return Tally(
        scope=scope,
        taken=taken,
        level=level,
        comparisons=sum(len(one.comparisons) for one in found),
        changed=of(lambda one: float(any(word in CHANGES for word in one.words.values()))),
        caught=of(_caught),
        slower={clock: of(partial(_share, clock, Word.REGRESSED)) for clock in clocks},
        inconclusive={clock: of(partial(_share, clock, Word.INCONCLUSIVE)) for clock in clocks},
        restarts=_middle([one.restarts for each in found for one in each.comparisons]),
        minutes=_middle([one.seconds / 60 for each in found for one in each.comparisons]),
    )


def _caught(one: Comparison) -> float:
    """The share of its cases that any clock calls slower."""
    slower = {case for (case, _), word in one.words.items() if word is Word.REGRESSED}
    return len(slower) / len({case for case, _ in one.words})


def _share(clock: str, wanted: Word, one: Comparison) -> float:
    """Of the tests on that clock."""
    words = [word for (_, name), word in one.words.items() if name == clock]
    return fmean(word is wanted for word in words) if words else 0.0


def _middle(values: Sequence[float]) -> tuple[float, float]:
    return float(np.median(values)), float(np.quantile(values, 0.9))
