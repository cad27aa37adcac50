"""`python -m perf ab`: its arguments as frozen data, both sides made ready, and its exit status."""

from __future__ import annotations

import argparse
import math
import secrets
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING

from perf.ab.interrupt import stoppable
from perf.ab.sides import Sides
from perf.covering import MATRICES
from perf.errors import CoregateError
from perf.options import NARROWING
from perf.outcome import FAILING, Verdict, Word

if TYPE_CHECKING:
    from perf.ab.compare import Plan

INTERRUPTED, USAGE, UNDECIDED = 2, CoregateError.exit_code, 6
ABOUT = "compare two revisions or interpreters on this machine, side by side, without a baseline"
LIMITS: Mapping[str, tuple[type[float] | type[int], float, str]] = {
    "--resolution": (float, 0.03, "smallest relative change that may not pass"),
    "--budget-minutes": (float, 15.0, "most time to take"),
    "--restarts": (int, 40, "most fresh pairs of processes"),
}
SIDE = "a git revision, the path of a python, or . for the working tree"


@dataclass(frozen=True)
class Arguments:
    """`collection` is what both sides' pytest is given; the seed in it is of the inputs and of the order of blocks."""

    base: str
    head: str
    seed: int
    collection: tuple[str, ...]
    plan: Plan
    inconclusive: str
    root: Path


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("ab", help=ABOUT, description=ABOUT)
    command.add_argument("--base", required=True, metavar="REV|PYTHON", help=SIDE)
    command.add_argument("--head", default=".", metavar="REV|PYTHON", help=f"{SIDE} (default: .)")
    command.add_argument("-k", default="", dest="expression", metavar="EXPR", help="pytest's -k, over the cases' keys")
    for option, what in NARROWING.items():
        command.add_argument(option, action="append", default=[], metavar="PATTERN", help=f"{what}; repeatable")
    command.add_argument("--matrix", choices=MATRICES, default="standard", help="(default: %(default)s)")
    command.add_argument(
        "--clock", action="append", default=[], metavar="NAME", help="judge this clock alone, such as cpu_s; repeatable"
    )
    for option, (kind, default, what) in LIMITS.items():
        shown = f"{what} (default: {default})"
        command.add_argument(option, type=kind, default=default, metavar=kind.__name__.upper(), help=shown)
    command.add_argument(
        "--inconclusive",
        choices=("fail", "pass"),
        default="fail",
        help=f"exit status where nothing is worse and something could not be told: {UNDECIDED} (default), or 0",
    )
    command.add_argument(
        "--perf-seed", type=int, metavar="N", help="seed of inputs and order (default: drawn, printed)"
    )
    command.set_defaults(run=run)


def run(namespace: argparse.Namespace) -> int:
    """Compare, print, and give the exit status.

    Raises:
        CoregateError: usage, a side that does not start, or nothing to compare.
    """
    arguments = read(namespace)
    print(f"seed {arguments.seed}", file=sys.stderr)
    try:
        with stoppable():
            return _compared(arguments)
    except KeyboardInterrupt:
        print("interrupted: worktrees and workers are gone", file=sys.stderr)
        return INTERRUPTED


def read(namespace: argparse.Namespace) -> Arguments:
    """Raises CoregateError where a limit makes no sense."""
    from perf.ab.compare import Plan

    seed = secrets.randbelow(2**31) if namespace.perf_seed is None else namespace.perf_seed
    narrowing = [
        f"{option}={pattern}" for option in NARROWING for pattern in getattr(namespace, option.removeprefix("--"))
    ]
    expression = ["-k", namespace.expression] if namespace.expression else []
    _check_limits(namespace)
    plan = Plan(namespace.resolution, namespace.restarts, 60 * namespace.budget_minutes, tuple(namespace.clock))
    return Arguments(
        base=namespace.base,
        head=namespace.head,
        seed=seed,
        collection=(f"--perf-seed={seed}", f"--matrix={namespace.matrix}", *narrowing, *expression),
        plan=plan,
        inconclusive=namespace.inconclusive,
        root=Path.cwd(),
    )


def _check_limits(namespace: argparse.Namespace) -> None:
    if not 0 < namespace.resolution < 1:
        raise CoregateError(f"--resolution {namespace.resolution}: a share between 0 and 1 is wanted: 0.03 for 3 %")
    if not 0 < namespace.budget_minutes < math.inf:
        raise CoregateError(f"--budget-minutes {namespace.budget_minutes}: more than 0 is wanted")
    if namespace.restarts < 2:
        raise CoregateError(f"--restarts {namespace.restarts}: 2 or more are wanted, for a spread between them")


def exit_status(verdicts: Iterable[Verdict], inconclusive: str) -> int:
    """Worse beats undecided, which beats nothing compared."""
    words = [found.word for found in verdicts]
    if FAILING & set(words):
        return 1
    if Word.INCONCLUSIVE in words:
        return UNDECIDED if inconclusive == "fail" else 0
    return 0 if {Word.SAME, Word.IMPROVED} & set(words) else USAGE


def _compared(arguments: Arguments) -> int:
    from perf.ab import table
    from perf.ab.compare import compare
    from perf.ab.origin import opened

    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="coregate-ab-", ignore_cleanup_errors=True)))
        base = stack.enter_context(opened("base", arguments.base, arguments.root, scratch))
        head = stack.enter_context(opened("head", arguments.head, arguments.root, scratch))
        dice = Random(arguments.seed)
        sides = Sides((base, head), scratch, arguments.collection, arguments.plan.budget_s, dice)
        findings = compare(sides.start, arguments.plan, monotonic, dice, _tell)
    print(f"base: {base.label}\nhead: {head.label}")
    for line in table.software_lines(*sides.software):
        print(f"differs: {line}")
    print("\n".join(table.lines(findings, arguments.plan.resolution, arguments.plan.restarts)))
    return exit_status(findings.verdicts(arguments.plan.resolution), arguments.inconclusive)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
