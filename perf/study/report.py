"""The study in Markdown: what was recorded, false alarms, detection, each case, and every target with what misses
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from perf.report.cases import plural
from perf.study.analysis import TRIALS, Finding, Study
from perf.study.rates import AGAIN, Rate
from perf.study.tables import interval, percent, table

COMMAND = "python -m perf study"


@dataclass(frozen=True)
class Target:
    """What a metric owes: at most `alarms` false alarms a run, and where `level` is given, that slowdown `caught`."""

    alarms: float
    level: float | None = None
    caught: float = 0.95


TARGETS: Mapping[str, Target] = {
    "latency_s": Target(alarms=0.02),
    "cpu_s": Target(alarms=0.02),
    "device_s": Target(alarms=0.01, level=0.01),
}

INTRODUCTION = f"""# How well the gate tells a regression from noise

Recorded runs, one fresh process each, and what the rules make of them. `{COMMAND}` reads the files in this
folder and writes this page again, offline, in about a minute; `{COMMAND} --record N` first adds N runs of the
machine in hand.

- All rules see the same runs. *Drawn*: baselines of k runs are drawn from all others, {TRIALS} for each run judged.
  *In order*: the baseline is the k runs just before. coregate measures a suspect again in {AGAIN} other recorded runs;
  fixed rules look at the newest accepted run alone.
- A *false alarm* is a run without extra work in which any case is called slower.
- *Detection* is how often a case with real extra work is called slower, the mean over all cases. The work is
  arithmetic, timed so that it takes the wanted share of the case's shortest call; on a GPU, of its kernel time: how
  much of that a caller waits for is not known. Cases too short for the least work of a level are not in it.
- In brackets: the 95 % interval (Clopper–Pearson) for as many independent runs as were judged.
- coregate calls nothing slower that is within its budget, by design; with budget 0 it calls what the noise allows. What
  a control case excuses is not called slower, as in the gate, where the runs have control cases.
- `{COMMAND} --record-ab N` adds N restarts of `python -m perf ab` on two sides that are alike, with and without extra
  work in one of them; its own rule is replayed on them.
"""


def page(
    studies: Sequence[Study], plots: Mapping[str, Sequence[str]], comparisons: Mapping[str, Sequence[str]] = {}
) -> str:
    """The whole page. By machine class: `plots` are file names, `comparisons` the lines on `python -m perf ab`."""
    sections = {found.machine_class: section(found, plots.get(found.machine_class, ())) for found in studies}
    for name, lines in comparisons.items():
        sections[name] = [*sections[name], "", *lines] if name in sections else list(lines)
    parts = ["\n".join([f"## {name}", "", *lines, ""]) for name, lines in sorted(sections.items())]
    return "\n".join([INTRODUCTION, *parts])


def section(found: Study, plots: Sequence[str]) -> list[str]:
    lines = [*_recorded(found), ""]
    lines += [part for name in plots for part in (f"![{name}]({name})", "")]
    for metric in found.metrics:
        lines += [f"### {metric}", "", *_alarms(found, metric), ""]
        if found.levels:
            lines += [*_detection(found, metric), ""]
        lines += [*_cases(found, metric), ""]
    return [*lines, "### Targets", "", *targets(found)]


def _recorded(found: Study) -> Iterator[str]:
    hardware = ", ".join(f"{name} {value}" for name, value in found.runs[0].hardware.items())
    counts = f"{plural(len(found.runs), 'run')}, {found.injected} of them with extra work"
    yield f"{counts}; {plural(len(found.cases), 'case')}; {hardware}."
    yield f"From {found.runs[0].at} to {found.runs[-1].at}. {_software(found)}"
    yield from _controls(found)
    left_out = sorted({key for run in found.runs for key in run.left_out} | _elsewhere(found))
    if left_out:
        yield f"Not in every run, and so in none of this: {', '.join(left_out)}."
    for metric, shares in found.achieved.items():
        if shares:
            given = ", ".join(f"{level:.0%}: {share:.2%}" for level, share in shares.items())
            yield f"Extra work wanted, and what it took of `{metric}` (median): {given}."


def _controls(found: Study) -> Iterator[str]:
    having = sum(bool(run.controls) for run in found.runs)
    if having:
        shares = ", ".join(f"k = {k}: {interval(share)}" for k, share in found.moved.items() if share)
        yield f"{having} of the runs have control cases; beside the k runs before, one had moved in {shares} of runs."


def _software(found: Study) -> str:
    sets = {tuple(sorted(run.software.items())) for run in found.runs}
    said = ", ".join(f"{name} {version}" for name, version in found.runs[-1].software.items())
    return f"{said}." if len(sets) == 1 else f"{len(sets)} sets of software; the last: {said}."


def _elsewhere(found: Study) -> set[str]:
    return {point.case for run in found.runs for point in run.points} - set(found.cases)


def _alarms(found: Study, metric: str) -> list[str]:
    sizes = sorted(found.together)
    heads = [part for k in sizes for part in (f"drawn, k = {k}", f"in order, k = {k}")]
    rows = []
    for rule in _names(found, metric):
        cells = []
        for one in (_one(found, metric, k, rule) for k in sizes):
            cells += [interval(one.drawn), interval(one.ordered)]
        rows.append([rule, *cells, _share(_one(found, metric, sizes[-1], rule).inconclusive)])
    if len(found.metrics) > 1:
        cells = [interval(rate) for k in sizes for rate in found.together[k]]
        rows.append([f"coregate, any of {', '.join(found.metrics)}", *cells, ""])
    return ["False alarms of a whole run:", "", *table(["rule", *heads, "cases inconclusive"], rows)]


def _detection(found: Study, metric: str) -> list[str]:
    rows = [
        [rule, str(k), *(interval(_one(found, metric, k, rule).caught.get(level)) for level in found.levels)]
        for k in sorted(found.together)
        for rule in _names(found, metric)
    ]
    cases = ["*cases that could be given so much*", "", *(str(found.reaching(metric, level)) for level in found.levels)]
    return ["Detection:", "", *table(["rule", "k", *(f"{level:.0%}" for level in found.levels)], [cases, *rows])]


def _cases(found: Study, metric: str) -> list[str]:
    """Of ours without a budget, beside the largest baseline: what the noise of each case allows."""
    k = max(found.together)
    one = _exact(found, metric, k)
    rows = [
        [
            case,
            f"{median(run.seen(metric, 0.0)[case].median for run in found.runs):.3g}",
            percent(found.visible[metric, k][case]),
            _share(one.alarming.get(case)),
            *(_share(one.by_case[case].get(level)) for level in found.levels),
        ]
        for case in found.cases
    ]
    heads = ["case", metric, "smallest visible", "no extra work", *(f"{level:.0%}" for level in found.levels)]
    return [f"Each case, {one.rule}, k = {k}: how often it is called slower", "", *table(heads, rows)]


def targets(found: Study) -> list[str]:
    """A line for each target, met or missed, by how much, and what limits it."""
    k = max(found.together)
    lines = []
    for metric in found.metrics:
        target = TARGETS[metric]
        for one in (one for one in found.of(metric, k) if one.budget is not None):
            lines += [_alarm_target(one, target)]
        if target.level in found.levels:
            lines += [_caught_target(found, _exact(found, metric, k), target, target.level)]
    return lines


def _alarm_target(one: Finding, target: Target) -> str:
    """Drawn and in order both count."""
    found = [rate.share for rate in (one.drawn, one.ordered) if rate is not None]
    said = f"{interval(one.drawn)} of runs drawn, {interval(one.ordered)} in order"
    what = f"{_what(one)}: false alarms in {said}, at most {target.alarms:.0%} wanted"
    if max(found) <= target.alarms:
        return f"{what}: met; {_possible(one.drawn, 'up to', one.drawn.high if one.drawn else 1.0)}."
    worst = max(one.alarming, key=lambda case: one.alarming[case].share)
    return (
        f"{what}: **missed** by {100 * (max(found) - target.alarms):.1f} points; {worst} alone alarms in "
        f"{percent(one.alarming[worst].share)} of runs drawn."
    )


def _caught_target(found: Study, one: Finding, target: Target, level: float) -> str:
    rate = one.caught.get(level)
    what = f"{_what(one)}: a slowdown of {level:.0%} caught in {interval(rate)}, {target.caught:.0%} wanted"
    if rate is None:
        return f"{what}: **missed**: too few runs with extra work."
    if rate.share >= target.caught:
        return f"{what}: met; {_possible(rate, 'as little as', rate.low)}."
    visible = found.visible[one.metric, one.k]
    worst = min(
        (case for case in one.by_case if level in one.by_case[case]), key=lambda case: one.by_case[case][level].share
    )
    return (
        f"{what}: **missed** by {100 * (target.caught - rate.share):.1f} points; the noise between runs lets "
        f"{percent(median(visible.values()))} be seen 8 times in 10 (median over cases), and {percent(visible[worst])} "
        f"in {worst}, which is caught least."
    )


def _possible(rate: Rate | None, how: str, bound: float) -> str:
    """What so few runs do not rule out."""
    return f"{plural(rate.runs if rate else 0, 'run')} leave {how} {percent(bound)} possible"


def _what(one: Finding) -> str:
    return f"- {one.metric}, {one.rule}, k = {one.k}"


def _names(found: Study, metric: str) -> list[str]:
    return list(dict.fromkeys(one.rule for one in found.findings if one.metric == metric))


def _one(found: Study, metric: str, k: int, rule: str) -> Finding:
    return next(one for one in found.of(metric, k) if one.rule == rule)


def _exact(found: Study, metric: str, k: int) -> Finding:
    """Ours with a budget of 0."""
    return next(one for one in found.of(metric, k) if one.budget == 0)


def _share(rate: Rate | None) -> str:
    return "–" if rate is None else percent(rate.share)
