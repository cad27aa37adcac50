"""`python -m perf`: what is done with runs once they are recorded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from perf.errors import CoregateError
from perf.store.baselines import accept
from perf.study import command as study


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    accepting = commands.add_parser("accept", help="append recorded runs to the baseline of their machine class")
    accepting.add_argument("runs", nargs="+", type=Path, metavar="RUN.json", help="from --benchmark-autosave or -json")
    accepting.add_argument("--reason", required=True, help="why these runs are the new normal; kept in the file")
    accepting.add_argument("--baselines", type=Path, default=Path("perf/baselines"), help="(default: %(default)s)")
    accepting.set_defaults(run=_accept)
    study.register(commands)
    return top


def _accept(arguments: argparse.Namespace) -> int:
    for run in arguments.runs:
        print(f"accepted {run} as {accept(run, arguments.baselines, arguments.reason)}")
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
