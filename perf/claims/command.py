"""`python -m perf report --claims`: the page of claims, from what is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perf.catalogue import collect
from perf.claims.evidence import gather
from perf.claims.judge import judge, left_out, unanswered
from perf.claims.page import page
from perf.claims.reading import readings
from perf.claims.words import Claim
from perf.errors import CoregateError
from perf.store.files import write_atomically


@dataclass(frozen=True)
class Places:
    """Folders of claims (files with `CLAIMS = [...]`), of accepted runs and of result files; the page to write."""

    root: Path
    claims: Path
    baselines: Path
    results: Path
    page: Path


@dataclass(frozen=True)
class Written:
    """Names of claims that nothing answers yet, and of rows that the page leaves out what they lack."""

    unanswered: list[str]
    left_out: list[str]


def write_claims(places: Places) -> Written:
    """Write the page.

    Raises:
        CoregateError: a file is damaged, there are no claims, or the page cannot be written.
    """
    claims = read_claims(places.root, [places.claims])
    lines = judge(claims, readings(gather(places.baselines, places.results)))
    write_atomically(places.page, page(lines))
    return Written(unanswered(lines), left_out(lines))


def read_claims(root: Path, folders: Sequence[Path]) -> list[Claim]:
    """By number, `C2` before `C10`, then by name.

    Raises:
        CoregateError: a file does not import, or there is none.
    """
    found = collect(folders, "CLAIMS", root)
    if not found:
        raise CoregateError(f"no claims in {', '.join(map(str, folders))}: files with CLAIMS = [...] are wanted")
    return sorted(found.values(), key=lambda claim: (_number(claim.name), claim.name))


def _number(name: str) -> int:
    digits = "".join(c for c in name.split()[0] if c.isdigit())
    return int(digits or 0)
