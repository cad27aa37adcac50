"""The run's rows become verdicts: compared, suspects measured again, the machine's own movement taken out, causes
named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import starmap

from perf.check.inductor import CACHE_NOTE, CACHED
from perf.confirm import CACHE, Command, confirm, values
from perf.contract import Case
from perf.disturbance import but_one
from perf.errors import CoregateError
from perf.interrupts import Interrupts
from perf.judge import verdict
from perf.judge.controls import excuse, moved, said
from perf.judge.counters import judge_bound, software_moved
from perf.judge.disturbed import set_aside, undisturbed
from perf.judge.suspects import suspects, tuned_otherwise
from perf.judge.verdict import compare, with_note
from perf.measure.device import on_card
from perf.measure.machine import commit, conditions
from perf.outcome import SINCE, Row, Verdict, Word
from perf.scope import owed
from perf.session import Session
from perf.store.baselines import Run

Newest = Mapping[str, tuple[Row, Mapping[str, str]]]
"""By key, the newest accepted row, and the software of its run."""

CHANGED = frozenset({Word.REGRESSED, Word.IMPROVED, Word.INCONCLUSIVE})


@dataclass(frozen=True)
class Judgement:
    """`machine` says which controls moved; `problems` are errors met on the way."""

    verdicts: list[Verdict] = field(default_factory=list)
    drifts: list[verdict.Drifted] = field(default_factory=list)
    machine: str = ""
    problems: list[str] = field(default_factory=list)


def judge(run: Session, baseline: Sequence[Run], command: Command, looks: int, interrupts: Interrupts) -> Judgement:
    """Judge what `run` measured beside `baseline` (oldest first, at least one run). Suspects are measured again in
    `looks` fresh processes, unless that is interrupted.
    """
    comparison = compare(run.rows.values(), [before.rows for before in baseline], _budgets(run))
    asked = {key: tuned_otherwise(run.rows[key], _accepted(baseline, key)) for key in comparison.suspects()}
    again, problems = _again(run, command, asked, looks, interrupts)
    notes = {key: [row.notes, *(rows[key].notes for rows in again if key in rows)] for key, row in run.rows.items()}
    newest = {
        key: (row, _with_code(before.software, before.commit))
        for before in baseline
        for key, row in before.rows.items()
    }
    machine = moved(run.timed_controls(), [before.controls for before in baseline])
    judged = excuse(set_aside(comparison.verdicts(values(again)), notes), machine)
    return Judgement(
        verdicts=[*_explained(judged, run, newest), *_counted(run, newest), *_unmeasured(run, baseline)],
        drifts=undisturbed(comparison.drifts(), notes),
        machine=", ".join(map(said, machine)),
        problems=problems,
    )


def _accepted(baseline: Sequence[Run], key: str) -> list[Row]:
    return [before.rows[key] for before in baseline if key in before.rows]


def _again(
    run: Session, command: Command, keys: Mapping[str, bool], looks: int, interrupts: Interrupts
) -> tuple[list[Mapping[str, Row]], list[str]]:
    """The rows of fresh processes, and what went wrong with them; a suspect that cannot be measured again stays one.
    `keys` are those to measure, and whether to compile them anew. This process waits on the card meanwhile."""
    run.workbench.close()
    found: list[Mapping[str, Row]] = []
    problems: list[str] = []
    try:
        with interrupts.heard() if keys and looks else nullcontext(), run.workbench.ledger.span("confirming"):
            found.extend(_looks(command, keys, looks, problems))
    except KeyboardInterrupt:
        interrupts.seen = True
        asked = f"{looks * len(set(keys.values()))} were asked for"
        problems.append(f"interrupted: suspects were measured again {len(found)} times, {asked}")
    if cached := {key for rows in found for key, row in rows.items() if keys[key] and _was_cached(row)}:
        command.tell(f"not compiled anew, something sets {CACHE} to a cache that is kept: {', '.join(sorted(cached))}")
    return [dict(starmap(_undisturbed_by_us, rows.items())) for rows in found] if on_card() else found, problems


def _looks(command: Command, keys: Mapping[str, bool], looks: int, problems: list[str]) -> Iterator[Mapping[str, Row]]:
    """What is compiled anew has processes of its own; one that fails takes nothing from the others."""
    for anew in sorted(set(keys.values())):
        try:
            yield from confirm(command, [key for key in keys if keys[key] is anew], looks, compiled_anew=anew)
        except CoregateError as error:
            problems.append(str(error))


def _was_cached(row: Row) -> bool:
    return CACHED in row.notes.get(CACHE_NOTE, "")


def _undisturbed_by_us(key: str, row: Row) -> tuple[str, Row]:
    return key, replace(row, notes=but_one(row.notes))


def _budgets(run: Session) -> verdict.Budgets:
    """A core's own, and before them those of the test that measured the case."""
    cores = run.catalogue.cores
    return {key: {**cores[Case.parse(key).core].budgets, **run.budgets.get(key, {})} for key in run.rows}


def _explained(verdicts: Sequence[Verdict], run: Session, newest: Newest) -> list[Verdict]:
    """What else moved, beside each verdict that says a change."""
    here = _with_code(conditions(), commit(run.options.root))
    return [_with_suspects(found, run, here, newest) if found.word in CHANGED else found for found in verdicts]


def _with_suspects(found: Verdict, run: Session, here: Mapping[str, str], newest: Newest) -> Verdict:
    before, accepted = newest[found.key]
    since = suspects(run.rows[found.key], before, found.metric, here, accepted)
    return with_note(found, f"{SINCE}{since}") if since else found


def _with_code(versions: Mapping[str, str], digits: str) -> dict[str, str]:
    """Beside the versions, the commit of the code under test, where git knows it."""
    short = digits.replace(digits.partition("-")[0], digits[:9])
    return {**versions, "code": short} if digits else dict(versions)


def _counted(run: Session, newest: Newest) -> Iterator[Verdict]:
    """Counters that one file for all machines cannot hold, beside the newest accepted run's."""
    for key, row in run.rows.items():
        before, accepted = newest.get(key, (None, {}))
        if before is not None and before.workload == row.workload:
            yield from judge_bound(key, row.counters, before.counters, software_moved(conditions(), accepted))


def _unmeasured(run: Session, baseline: Sequence[Run]) -> list[Verdict]:
    """Cases that are wrong, and cases that the baseline has and this run owes. What is wrong is not missing as well,
    nor is what else is kept of it."""
    kept = {key for before in baseline for key in before.rows}
    absent = run.left_out | {key: f"cannot run here: {skip.reason}" for key, skip in run.unsupported.items()}
    lost = owed(run.catalogue, run.options.selection, kept, set(run.rows), absent)
    wrong = [(key, why) for key, why in run.left_out.items() if key not in run.rows]
    gone = [(key, why) for key, why in lost if run.left_out.keys().isdisjoint((key, Case.parse(key).key))]
    return [*verdict.wrong(wrong), *verdict.missing(gone)]
