"""`python -m perf`: what is done beside the suites."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from perf.ab.command import register as register_ab
from perf.errors import CoregateError
from perf.reporting import register as register_report
from perf.store.baselines import KEEP, accept
from perf.study.command import register as register_study


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    accepting = commands.add_parser("accept", help="append recorded runs to the baseline of their machine class")
    accepting.add_argument("runs", nargs="+", type=Path, metavar="RUN.json", help="from --benchmark-autosave or -json")
    accepting.add_argument("--reason", required=True, help="why these runs are the new normal; kept in the file")
    accepting.add_argument(
        "--keep",
        type=int,
        default=KEEP,
        metavar="N",
        help="newest runs of each case kept beside its oldest (default: %(default)s)",
    )
    accepting.add_argument("--baselines", type=Path, default=Path("perf/baselines"), help="(default: %(default)s)")
    accepting.set_defaults(run=_accept)
    register_ab(commands)
    register_study(commands)
    register_report(commands)
    return top


def _accept(arguments: argparse.Namespace) -> int:
    if arguments.keep < 1:
        raise CoregateError(f"--keep {arguments.keep}: 1 or more is wanted")
    accepted = accept(arguments.runs, arguments.baselines, arguments.reason, arguments.keep)
    for run, target in zip(arguments.runs, accepted, strict=True):
        print(f"accepted {run} as {target}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except CoregateError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return status


if __name__ == "__main__":
    sys.exit(main())
