"""`docs/claims.md`: every claim with their figure and ours in one table, and below what each answer rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from perf.claims.judge import Line, unanswered
from perf.claims.words import OPEN, Finding, Table
from perf.report.cases import plural

HEADINGS = ("claim", "theirs", "ours", "machine", "verdict")
INTRODUCTION = """\
# Claims, measured again

What the sources claim of optimised models, and what our records say. This page is computed: `python -m perf report
--claims` reads the accepted runs in `perf/baselines/` and the result files in `docs/results/`, each of which holds the
command that made it. «Theirs» are the sources' figures, on their machines."""


NAMED = 2
"""How many of the numbers that come from different runs are named."""

LONG, SHOWN = 400, 160
"""Characters from which a command stands in full at the end alone, and of how many its beginning is shown."""


def page(lines: Sequence[Line]) -> str:
    """Markdown. Lines of one claim follow each other."""
    summary = [HEADINGS, *map(_row, lines)]
    parts = [INTRODUCTION, "\n".join(markdown_table(summary)), _count(lines)]
    long = _long(lines)
    parts += ["\n\n".join(_section(list(group), long)) for _, group in groupby(lines, key=lambda line: line.claim.name)]
    parts += ["\n\n".join(("## Commands in full", *map(_numbered, long, long.values())))] if long else []
    return "\n\n".join(parts) + "\n"


def _long(lines: Sequence[Line]) -> dict[str, int]:
    """The number of each long command, in the order in which they come."""
    told = (line for line in lines if line.answer.finding is not Finding.UNMEASURED)
    found = dict.fromkeys(command for line in told for command in line.commands if len(command) > LONG)
    return {command: number for number, command in enumerate(found, start=1)}


def _numbered(command: str, number: int) -> str:
    return f"{number}.\n\n```console\n$ {command}\n```"


def _shown(command: str, long: Mapping[str, int]) -> str:
    if command not in long:
        return f"$ {command}"
    return f"$ {command[:SHOWN].rpartition(' ')[0]} …   # command {long[command]} of those in full below"


def markdown_table(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Headings first. A bar in a cell would end it, and is written as HTML."""
    for at, row in enumerate(table):
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
        if at == 0:
            yield f"|{' --- |' * len(row)}"


def _row(line: Line) -> tuple[str, ...]:
    answer = line.answer
    because = f": {answer.because}" if answer.because else ""
    said = "see below" if answer.finding is Finding.UNMEASURED else answer.figure
    return f"[{line.claim.name}](#{_anchor(line)})", line.claim.theirs, said, line.machine, f"{answer.finding}{because}"


def _count(lines: Sequence[Line]) -> str:
    """Of the answers, of which a claim has one for each machine; and where those are of two minds."""
    words: dict[str, list[Finding]] = {}
    for line in lines:
        words.setdefault(line.claim.name, []).extend({line.answer.finding} - OPEN)
    answers = [word for found in words.values() for word in found]
    counted = ", ".join(f"{n} {word}" for word in Finding if (n := answers.count(word)))
    said = [f"{plural(len(answers), 'answer')}, one for each claim and machine: {counted}"] if answers else []
    differ = [name for name, found in words.items() if len(set(found)) > 1]
    said += [f"machines differ on {', '.join(differ)}"] if differ else []
    still = unanswered(lines)
    said += [f"not answered yet: {', '.join(still)}"] if still else []
    return _sentence("; ".join(said))


def _section(lines: Sequence[Line], long: Mapping[str, int]) -> Iterator[str]:
    claim = lines[0].claim
    yield f"## {claim.name}"
    yield claim.says
    for line in lines:
        because = f": {line.answer.because}" if line.answer.because else ""
        yield f"**{line.machine}**: {line.answer.finding}{because}. {_sentence(line.answer.figure)}"
        if line.answer.table:
            yield "\n".join(markdown_table(_padded(line.answer.table)))
        yield from _remarks(line)
        if line.commands and line.answer.finding is not Finding.UNMEASURED:
            yield "\n".join(["```console", *(_shown(command, long) for command in line.commands), "```"])
    if claim.why:
        yield claim.why


def _remarks(line: Line) -> Iterator[str]:
    if line.apart:
        more = len(line.apart) - NAMED
        yield f"Of different runs, since none has both: {'; '.join(line.apart[:NAMED])}{f'; {more} more' * (more > 0)}."
    if line.left_out:
        yield f"Left out: {'; '.join(line.left_out)}."


def _padded(table: Table) -> Table:
    width = max(map(len, table))
    return tuple((*row, *[""] * (width - len(row))) for row in table)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "`")) else ".")


def _anchor(line: Line) -> str:
    """As GitHub makes it of a heading."""
    return "".join(c for c in line.claim.name.lower().replace(" ", "-") if c.isalnum() or c in "-_")
