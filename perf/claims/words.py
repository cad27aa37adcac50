"""The words of claims, as frozen data: what is claimed, what records say of it, and what that makes of the claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perf.claims.reading import Reading

RESULTS = "docs/results"


class Finding(StrEnum):
    """What can become of a claim. `ELSEWHERE` is one about another kind of machine than those that were measured."""

    HOLDS = "holds"
    FAILS = "doesn't hold"
    DEPENDS = "depends"
    ELSEWHERE = "measured elsewhere only"
    UNMEASURED = "not measured yet"


OPEN = frozenset({Finding.ELSEWHERE, Finding.UNMEASURED})

Table = tuple[tuple[str, ...], ...]
"""Headings first; every line as long as they are."""


@dataclass(frozen=True)
class Answer:
    """Our `figure` in one line, the word, what it depends on or why it fails, and the numbers behind it."""

    figure: str
    finding: Finding
    because: str = ""
    table: Table = ()


@dataclass(frozen=True)
class Recording:
    """A command whose runs answer claims: each is kept as `docs/results/<machine class>/NNNN_<name>.json`, without its
    single samples, which `--benchmark-json` would keep. `arguments` are pytest's.
    """

    name: str
    arguments: str

    @property
    def command(self) -> str:
        return f"pytest {self.arguments} --benchmark-storage={RESULTS} --benchmark-save={self.name}"


@dataclass(frozen=True)
class Counting:
    """The same for counts, which pytest-benchmark keeps no file of; `option` is `--graph-report` or
    `--placement-report`."""

    name: str
    arguments: str
    option: str = "--graph-report"

    @property
    def command(self) -> str:
        return f"pytest {self.arguments} {self.option}={RESULTS}/{self.name}.json"


@dataclass(frozen=True)
class Proof:
    """Of what no figure decides: a `command` whose success is the answer, and what it shows."""

    shows: str
    command: str


@dataclass(frozen=True)
class Claim:
    """`says` in our words; `theirs` is the source's figure. `answer` reads one machine class's records and gives what
    they say, or raises `perf.claims.reading.MissingError`; `records` are the commands that make what it reads.
    `device` is `cuda` or `cpu` where the claim is about such a machine. `why` is prose that no figure tells.
    """

    name: str
    says: str
    theirs: str
    answer: Callable[[Reading], Answer] | Proof
    records: tuple[Recording | Counting, ...] = ()
    device: str = ""
    why: str = ""
