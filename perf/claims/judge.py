"""Each claim beside each machine class's records: a pure function over rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perf.claims.evidence import UNTOLD, MissingError, Reading
from perf.claims.words import OPEN, Answer, Claim, Finding, Proof
from perf.errors import CoregateError

ANY = "any"
A_MACHINE = {"cuda": "a GPU", "cpu": "a CPU", "": "any machine"}


@dataclass(frozen=True)
class Line:
    """One claim on one machine class: what is said, and the commands that made what it rests on, or would."""

    claim: Claim
    machine: str
    answer: Answer
    commands: tuple[str, ...]


def judge(claims: Iterable[Claim], readings: Sequence[Reading]) -> list[Line]:
    """At least a line a claim, in their order: the answers; of a claim without one, what is still open.

    Raises:
        CoregateError: a record holds what no claim can be answered from.
    """
    return [line for claim in claims for line in _lines(claim, readings)]


def unanswered(lines: Iterable[Line]) -> list[str]:
    """Names of claims of which no line says anything that counts."""
    found: dict[str, bool] = {}
    for line in lines:
        found[line.claim.name] = found.get(line.claim.name, False) or line.answer.finding not in OPEN
    return [name for name, answered in found.items() if not answered]


def _lines(claim: Claim, readings: Sequence[Reading]) -> list[Line]:
    if isinstance(claim.answer, Proof):
        shown = Answer(claim.answer.shows, Finding.HOLDS, "a test of this repository shows it")
        return [Line(claim, ANY, shown, (claim.answer.command,))]
    found = [line for reading in readings if (line := _read(claim, reading))]
    counts = [line for line in found if line.answer.finding not in OPEN]
    return counts or [*found, _missing(claim)]


def _read(claim: Claim, before: Reading) -> Line | None:
    """A reading of its own for each claim, so that it names its own sources; None where the records lack something."""
    assert not isinstance(claim.answer, Proof)
    reading = Reading(before.machine, before.device, before.records)
    try:
        answer = claim.answer(reading)
    except MissingError:
        return None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        files = ", ".join(sorted(path.name for path in reading.used)) or "no file"
        raise CoregateError(
            f"{claim.name} cannot be answered for {reading.machine} ({type(error).__name__}: {error}): see {files}"
        ) from error
    if claim.device and claim.device != reading.device:
        because = f"the claim is about {A_MACHINE[claim.device]}"
        answer = Answer(answer.figure, Finding.ELSEWHERE, because, answer.table)
    commands = dict.fromkeys(item.command for item in reading.used.values() if item.command != UNTOLD)
    return Line(claim, reading.machine, answer, tuple(commands))


def _missing(claim: Claim) -> Line:
    commands = tuple(record.command for record in claim.records)
    answer = Answer(f"run {' and '.join(f'`{command}`' for command in commands)}", Finding.UNMEASURED)
    return Line(claim, A_MACHINE[claim.device], answer, commands)
