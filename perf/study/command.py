"""`python -m perf study`: record runs where asked to, then compute the page and its pictures from what is recorded."""

from __future__ import annotations

import argparse
import math
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from perf.covering import MATRICES
from perf.errors import CoregateError
from perf.options import NARROWING

if TYPE_CHECKING:
    from perf.options import Options
    from perf.session import Session

ABOUT = "how often the gate's rule and others cry wolf, and what they catch, from recorded runs"
FOLDER = Path("docs/gate-study")
INTERRUPTED = 2

RESTART_LEVELS = (0.03,)


@dataclass(frozen=True)
class Arguments:
    """`collection` is what pytest would be given to choose the same cases; it matters where `runs` > 0 are recorded, or
    `restarts` > 0 of a comparison, with extra work of each of `levels` (None: what is usual there)."""

    folder: Path
    runs: int
    restarts: int
    levels: tuple[float, ...] | None
    injected_runs: int
    seconds: float
    seed: int | None
    collection: tuple[str, ...]


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser("study", help=ABOUT, description=ABOUT)
    command.add_argument("--folder", type=Path, default=FOLDER, help="recorded runs and report (default: %(default)s)")
    command.add_argument("--record", type=int, default=0, metavar="N", help="record N more runs, each a fresh process")
    command.add_argument(
        "--injected-runs",
        type=int,
        default=12,
        metavar="M",
        help="runs to hold extra work as well (default: %(default)s)",
    )
    command.add_argument(
        "--record-ab",
        type=int,
        default=0,
        metavar="N",
        help="record N more restarts of perf ab, this tree beside itself",
    )
    command.add_argument(
        "--levels",
        metavar="SHARES",
        help="extra work, such as 0.01,0.03; each level takes as long as the measuring itself "
        "(default: 0.01,0.02,0.03,0.05,0.1,0.2 in runs, 0.03 in restarts)",
    )
    command.add_argument("--seconds", type=float, default=0.3, help="time of each point (default: %(default)s)")
    for option, what in NARROWING.items():
        command.add_argument(option, action="append", default=[], metavar="PATTERN", help=f"{what}; repeatable")
    command.add_argument("--matrix", choices=MATRICES, default="standard", help="(default: %(default)s)")
    command.add_argument(
        "--perf-seed", type=int, metavar="N", help="seed of levels' order and parity's inputs (default: drawn)"
    )
    command.set_defaults(run=run)


def read(namespace: argparse.Namespace) -> Arguments:
    """Raises CoregateError where a value makes no sense, or narrows a recording that is not asked for."""
    if min(namespace.record, namespace.injected_runs, namespace.record_ab) < 0:
        raise CoregateError("--record, --record-ab and --injected-runs: a number of runs is wanted, 0 or more")
    if not 0 < namespace.seconds <= 60:
        raise CoregateError(f"--seconds {namespace.seconds}: more than 0 and at most 60 are wanted")
    chosen = [f"{option}={pattern}" for option in NARROWING for pattern in getattr(namespace, option[2:])]
    if chosen and not namespace.record and not namespace.record_ab:
        raise CoregateError(f"{chosen[0]} chooses what is recorded: give --record N or --record-ab N as well")
    return Arguments(
        folder=namespace.folder,
        runs=namespace.record,
        restarts=namespace.record_ab,
        levels=None if namespace.levels is None else _shares(namespace.levels),
        injected_runs=namespace.injected_runs,
        seconds=namespace.seconds,
        seed=namespace.perf_seed,
        collection=(*chosen, f"--matrix={namespace.matrix}"),
    )


def _shares(text: str) -> tuple[float, ...]:
    """`0.01,0.03` in rising order; empty for none at all."""
    try:
        found = sorted({float(part) for part in text.split(",") if part.strip()})
    except ValueError:
        found = [math.nan]
    if not all(0 < share <= 1 for share in found):
        raise CoregateError(f"--levels {text}: shares between 0 and 1 are wanted: 0.03 for 3 %, 0.01,0.03 for two")
    return tuple(found)


def run(namespace: argparse.Namespace) -> int:
    """Record, compute, write, and give the exit status.

    Raises:
        CoregateError: usage, a damaged file, nothing recorded, or nothing that could be.
    """
    from perf.study.publish import publish

    arguments = read(namespace)
    try:
        if arguments.runs:
            _record(arguments)
        if arguments.restarts:
            _record_ab(arguments)
        return publish(arguments.folder, bool(arguments.runs or arguments.restarts), _tell)
    except KeyboardInterrupt:
        print("interrupted: what is recorded stays; the same command goes on", file=sys.stderr)
        return INTERRUPTED


def _record(arguments: Arguments) -> None:
    from perf.measure import machine
    from perf.study.child import Spec
    from perf.study.inject import LEVELS
    from perf.study.record import Plan, record, start_process
    from perf.study.records import SUFFIX

    session = _session(arguments.collection)
    options = session.options
    spec = Spec(
        root=str(options.root),
        core_folders=tuple(map(str, options.core_folders)),
        variant_folders=tuple(map(str, options.variant_folders)),
        cache=str(options.cache),
        keys=tuple(case.key for case in session.cases),
        seed=0,
        seconds=arguments.seconds,
        levels=LEVELS if arguments.levels is None else arguments.levels,
    )
    path = arguments.folder / f"{machine.machine_class(session.hardware)}{SUFFIX}"
    seed = (lambda: secrets.randbelow(2**31)) if arguments.seed is None else (lambda: arguments.seed or 0)
    kept = record(Plan(path, arguments.runs, arguments.injected_runs, seed), spec, start_process, _tell)
    _tell(f"{kept} of {arguments.runs} runs recorded in {path}")


def _record_ab(arguments: Arguments) -> None:
    """Ctrl-C ends the processes first: they are in sessions of their own."""
    from perf.ab.compare import SIDES, Plan
    from perf.ab.interrupt import stoppable
    from perf.ab.origin import Origin
    from perf.measure import machine
    from perf.study.ab.record import Recording, record
    from perf.study.ab.records import SUFFIX

    hardware = _session(arguments.collection).hardware
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    name = machine.machine_class(hardware)
    path = arguments.folder / f"{name}{SUFFIX}"
    levels = RESTART_LEVELS if arguments.levels is None else arguments.levels
    recording = Recording(path, arguments.restarts, levels, Plan(), seed, name, hardware)
    base, head = (Origin(side, "the working tree", Path(sys.executable), Path.cwd()) for side in SIDES)
    with stoppable():
        kept = record(recording, (base, head), (*arguments.collection, f"--perf-seed={seed}"), monotonic, _tell)
    _tell(f"{kept} of {arguments.restarts} restarts recorded in {path}")


def _session(collection: Sequence[str]) -> Session:
    """Of what is to be recorded: cases of one device.

    Raises:
        CoregateError: they are of two, or there is none.
    """
    from perf.session import Session

    session = Session.start(configured(collection))
    if len(session.options.selection.devices) > 1:
        raise CoregateError("--device: one machine class is recorded at a time: name one device")
    if not session.cases:
        raise CoregateError("no case can run here: widen --core, --variant, --preset or --shape")
    return session


def configured(arguments: Sequence[str]) -> Options:
    """The options of this project as pytest reads them, its configuration included.

    Raises:
        CoregateError: pytest does not accept them, or the project names no cores.
    """
    import pytest

    from perf.options import read_options

    found: list[Options] = []

    class Asking:
        """Keeps the options that pytest read, and lets no session begin."""

        @pytest.hookimpl(tryfirst=True)
        def pytest_cmdline_main(self, config: pytest.Config) -> int:
            found.append(read_options(config))
            return 0

    pytest.main(["-p", "perf.plugin", "-p", "no:cacheprovider", *arguments], plugins=[Asking()])
    if not found:
        raise CoregateError("pytest does not start in this folder: its own message is above")
    if not found[0].active:
        raise CoregateError("no cores: set perf_cores = <folder of core files> in the pytest configuration")
    return found[0]


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
