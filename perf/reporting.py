"""`python -m perf report`: pages that are computed from what is recorded, each asked for by its own option."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from perf.errors import CoregateError

ABOUT = "pages computed from recorded runs: --claims, what others claim beside what was measured here"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("report", help=ABOUT, description=ABOUT)
    command.add_argument("--claims", action="store_true", help="write the page of claims")
    command.add_argument("--strict", action="store_true", help="exit status 1 where a claim is not answered yet")
    for name, default, what in (
        ("--claims-from", "fixtures/claims", "folder of claim files, each with CLAIMS = [...]"),
        ("--baselines", "perf/baselines", "folder of accepted runs"),
        ("--results", "docs/results", "folder of result files"),
        ("--claims-page", "docs/claims.md", "the page of claims"),
    ):
        command.add_argument(name, type=Path, default=Path(default), help=f"{what} (default: %(default)s)")
    command.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Write what was asked for, and give the exit status.

    Raises:
        CoregateError: nothing was asked for, a file is damaged, or a page cannot be written.
    """
    from perf.claims.command import Places, write_claims

    if not namespace.claims:
        raise CoregateError("report: say what is wanted: --claims")
    places = Places(Path.cwd(), namespace.claims_from, namespace.baselines, namespace.results, namespace.claims_page)
    written = write_claims(places)
    print(f"written to {places.page}")
    for row in written.left_out:
        print(f"left out: {row}", file=sys.stderr)
    if written.unanswered:
        print(f"not answered yet: {', '.join(written.unanswered)}", file=sys.stderr)
    return 1 if written.unanswered and namespace.strict else 0
