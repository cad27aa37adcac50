"""Each claim beside each machine class's records: a pure function over rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perf.claims.evidence import UNTOLD
from perf.claims.reading import MissingError, Reading
from perf.claims.words import OPEN, Answer, Claim, Finding, Proof
from perf.errors import CoregateError

ANY = "any"
A_MACHINE = {"cuda": "a GPU", "cpu": "a CPU", "": "any machine"}


@dataclass(frozen=True)
class Line:
    """One claim on one machine class: what is said, and the commands that made what it rests on, or would. `left_out`
    are rows with what they lack, `apart` keys that are set beside each other though no run has both.
    """

    claim: Claim
    machine: str
    answer: Answer
    commands: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


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


def left_out(lines: Iterable[Line]) -> list[str]:
    """Each row that some answer had no use for, once for each claim."""
    return [f"{line.claim.name}: {row}" for line in lines for row in line.left_out]


def _lines(claim: Claim, readings: Sequence[Reading]) -> list[Line]:
    if isinstance(claim.answer, Proof):
        shown = Answer(claim.answer.shows, Finding.HOLDS, "a test of this repository shows it")
        return [Line(claim, ANY, shown, (claim.answer.command,))]
    found = [line for reading in readings if (line := _read(claim, reading))]
    counts = [line for line in found if line.answer.finding not in OPEN or line.left_out]
    return counts if unanswered(counts) == [] and counts else [*found, _missing(claim)]


def _read(claim: Claim, before: Reading) -> Line | None:
    """A reading of its own for each claim, so that it names its own sources; None where there is no row for it."""
    assert not isinstance(claim.answer, Proof)
    reading = Reading(before.machine, before.device, before.records)
    try:
        answer = claim.answer(reading)
    except MissingError:
        if not reading.said.left_out:
            return None
        answer = Answer("no row has all that an answer needs", Finding.UNMEASURED)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        files = ", ".join(sorted(path.name for path in reading.used)) or "no file"
        raise CoregateError(
            f"{claim.name} cannot be answered for {reading.machine} ({type(error).__name__}: {error}): see {files}"
        ) from error
    if claim.device and claim.device != reading.device and answer.finding is not Finding.UNMEASURED:
        because = f"the claim is about {A_MACHINE[claim.device]}"
        answer = Answer(answer.figure, Finding.ELSEWHERE, because, answer.table)
    commands = dict.fromkeys(item.command for item in reading.used.values() if item.command != UNTOLD)
    without = (f"{key}, for want of {lack.removeprefix(f'{key}: ')}" for key, lack in reading.said.left_out.items())
    apart = (" beside ".join(keys) for keys in reading.said.apart)
    return Line(claim, reading.machine, answer, tuple(commands), tuple(without), tuple(apart))


def _missing(claim: Claim) -> Line:
    commands = tuple(record.command for record in claim.records)
    answer = Answer(f"run {' and '.join(f'`{command}`' for command in commands)}", Finding.UNMEASURED)
    return Line(claim, A_MACHINE[claim.device], answer, commands)
