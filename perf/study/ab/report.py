"""The part on `python -m perf ab` of a machine class's section: words, time, noise, and the targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

from perf.report.cases import plural, seconds
from perf.study.ab.analysis import ALONE, DRAWN, ORDERED, TOGETHER, Proof, Tally
from perf.study.ab.spread import Spread
from perf.study.tables import interval, percent, table

COMMAND = "python -m perf ab"
ALARMS, LEVEL, CAUGHT = 0.01, 0.03, 0.95
"""Targets: at most so many comparisons of equals call anything a change; that slowdown is caught so often."""


def section(found: Proof) -> list[str]:
    lines = [f"### A/B, without a baseline (`{COMMAND}`)", "", *_recorded(found), ""]
    return [*lines, *((*_words(found), "") if found.tallies else ()), *_noise(found), "", *targets(found)]


def _recorded(found: Proof) -> Iterator[str]:
    first, last, plan = found.restarts[0], found.restarts[-1], found.plan
    starting = median(restart.start_s for restart in found.restarts)
    yield (
        f"{plural(len(found.restarts), 'restart')} of the working tree beside itself, "
        f"{plural(len(found.cases), 'case')}; from {first.at} to {last.at}; {starting:.1f} s to start both processes."
    )
    yield (
        "Each restart is measured as it is, and with extra work in the head. On its ratios the command's own rule is "
        f"replayed, with its looks, level and limits ({plan.restarts} restarts, {plan.budget_s / 60:.0f} minutes)."
    )
    yield (
        "*In order*: disjoint runs of restarts as they came. *Drawn*: restarts drawn from all, with replacement, and "
        "with the sides swapped by chance where they are alike; these comparisons share restarts. In brackets: the "
        "95 % interval for as many independent comparisons as the recorded restarts make; cases count by how alike "
        f"their ratios go (correlation {found.correlation:+.2f})."
    )
    if left_out := sorted({key for restart in found.restarts for key in restart.left_out}):
        yield f"Not in every restart, and so in none of this: {', '.join(left_out)}."


def _words(found: Proof) -> list[str]:
    heads = ["extra work", "in one command", "restarts", "comparisons", "anything called a change"]
    heads += [f"`{clock}` regressed" for clock in found.clocks] + ["case regressed by any clock"]
    heads += [f"`{clock}` inconclusive" for clock in found.clocks] + ["restarts, median / p90", "minutes, median / p90"]
    return table(heads, [_row(found, one) for one in found.tallies])


def _row(found: Proof, one: Tally) -> list[str]:
    shares = [interval(one.slower.get(clock)) for clock in found.clocks]
    open_ = [percent(one.inconclusive[clock].share) if clock in one.inconclusive else "–" for clock in found.clocks]
    spent = [f"{one.restarts[0]:.0f} / {one.restarts[1]:.0f}", f"{one.minutes[0]:.1f} / {one.minutes[1]:.1f}"]
    start = [f"{one.level:.0%}", one.scope, one.taken, str(one.comparisons), interval(one.changed)]
    return [*start, *shares, interval(one.caught), *open_, *spent]


def _noise(found: Proof) -> list[str]:
    levels = found.levels[1:]
    heads = ["case", "clock", "base", "noise of a restart", "between processes", "within"]
    heads += [f"seen of {level:.0%}" for level in levels]
    heads += ["pairs", "start and build", "measuring", "best measuring"]
    rows = [
        [
            one.case,
            one.clock,
            seconds(one.call_s),
            f"{one.total:.2%}",
            *("–" if part is None else f"{part:.2%}" for part in (one.between, one.within)),
            *(f"{one.seen[level]:+.2%}" if level in one.seen else "–" for level in levels),
            f"{one.pairs:.0f}",
            f"{one.before_s:.1f} s",
            f"{one.measuring_s:.1f} s",
            _best(one),
        ]
        for one in found.spreads
    ]
    said = (
        "Each case: standard deviations of a restart's log ratio, how much of the extra work was seen beside the same "
        "two processes without it, and the seconds of measuring a restart that would tell most in a given time:"
    )
    return [said, "", *table(heads, rows)]


def _best(one: Spread) -> str:
    best = one.best_s
    return "–" if best is None else "as long as it may" if math.isinf(best) else f"{best:.1f} s"


def targets(found: Proof) -> list[str]:
    """A line for each target and scope, met or missed."""
    return [
        *(_alarm_target(found, scope) for scope in (TOGETHER, ALONE)),
        *(_caught_target(found, scope) for scope in (TOGETHER, ALONE) if LEVEL in found.levels),
    ]


def _both(found: Proof, scope: str, level: float) -> Sequence[Tally]:
    return [one for taken in (DRAWN, ORDERED) if (one := found.tally(scope, taken, level))]


def _alarm_target(found: Proof, scope: str) -> str:
    both = _both(found, scope, 0.0)
    if not both:
        return f"- A/B, {scope} in one command: too few restarts for a comparison: add some with --record-ab N."
    said = ", ".join(f"{interval(one.changed)} {one.taken}" for one in both)
    what = f"- A/B, {scope} in one command: no change called one in {said}, at most {ALARMS:.0%} wanted"
    over = max(one.changed.share for one in both) - ALARMS
    if over <= 0:
        runs = plural(both[0].changed.runs, "independent comparison")
        return f"{what}: met; {runs} leave up to {percent(both[0].changed.high)} possible."
    return f"{what}: **missed** by {100 * over:.1f} points."


def _caught_target(found: Proof, scope: str) -> str:
    both = _both(found, scope, LEVEL)
    if not both:
        return f"- A/B, {scope} in one command: too few restarts with {LEVEL:.0%} for a comparison."
    said = ", ".join(f"{interval(one.caught)} {one.taken}" for one in both)
    by_clock = ", ".join(f"{percent(rate.share)} by `{clock}` alone" for clock, rate in both[0].slower.items())
    what = f"- A/B, {scope} in one command: {LEVEL:.0%} caught in {said} ({by_clock}), {CAUGHT:.0%} wanted"
    short = CAUGHT - min(one.caught.share for one in both)
    if short <= 0:
        return f"{what}: met; as little as {percent(both[0].caught.low)} is possible."
    limit = max(found.spreads, key=lambda one: one.total)
    return (
        f"{what}: **missed** by {100 * short:.1f} points; the noise of a restart is {limit.total:.1%} in {limit.clock} "
        f"of {limit.case}, the most of any, and {median(one.total for one in found.spreads):.1%} in the median."
    )
