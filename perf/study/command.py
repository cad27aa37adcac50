"""`python -m perf study`: record runs where asked to, then compute the page and its pictures from what is recorded."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perf.covering import MATRICES
from perf.errors import CoregateError
from perf.options import NARROWING

if TYPE_CHECKING:
    from perf.options import Options

ABOUT = "how often the gate's rule and others cry wolf, and what they catch, from recorded runs"
FOLDER = Path("docs/gate-study")
INTERRUPTED = 2


@dataclass(frozen=True)
class Arguments:
    """`collection` is what pytest would be given to choose the same cases; it matters where `runs` > 0 are recorded."""

    folder: Path
    runs: int
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
    command.add_argument("--seconds", type=float, default=0.3, help="time of each point (default: %(default)s)")
    for option, what in NARROWING.items():
        command.add_argument(option, action="append", default=[], metavar="PATTERN", help=f"{what}; repeatable")
    command.add_argument("--matrix", choices=MATRICES, default="standard", help="(default: %(default)s)")
    command.add_argument(
        "--perf-seed", type=int, metavar="N", help="seed of every run's inputs (default: each its own)"
    )
    command.set_defaults(run=run)


def read(namespace: argparse.Namespace) -> Arguments:
    """Raises CoregateError where a value makes no sense, or narrows a recording that is not asked for."""
    if namespace.record < 0 or namespace.injected_runs < 0:
        raise CoregateError("--record and --injected-runs: a number of runs is wanted, 0 or more")
    if not 0 < namespace.seconds <= 60:
        raise CoregateError(f"--seconds {namespace.seconds}: more than 0 and at most 60 are wanted")
    chosen = [f"{option}={pattern}" for option in NARROWING for pattern in getattr(namespace, option[2:])]
    if chosen and not namespace.record:
        raise CoregateError(f"{chosen[0]} chooses what is recorded: give --record N as well")
    return Arguments(
        folder=namespace.folder,
        runs=namespace.record,
        injected_runs=namespace.injected_runs,
        seconds=namespace.seconds,
        seed=namespace.perf_seed,
        collection=(*chosen, f"--matrix={namespace.matrix}"),
    )


def run(namespace: argparse.Namespace) -> int:
    """Record, compute, write, and give the exit status.

    Raises:
        CoregateError: usage, a damaged file, nothing recorded, or nothing that could be.
    """
    arguments = read(namespace)
    try:
        if arguments.runs:
            _record(arguments)
        return _report(arguments.folder, recording=bool(arguments.runs))
    except KeyboardInterrupt:
        print("interrupted: what is recorded stays; the same command goes on", file=sys.stderr)
        return INTERRUPTED


def _record(arguments: Arguments) -> None:
    from perf.measure import machine
    from perf.session import Session
    from perf.study.child import Spec
    from perf.study.inject import LEVELS
    from perf.study.record import Plan, record, start_process
    from perf.study.records import SUFFIX

    session = Session.start(configured(arguments.collection))
    options, devices = session.options, session.options.selection.devices
    if len(devices) > 1:
        raise CoregateError("--device: one machine class is recorded at a time: name one device")
    if not session.cases:
        raise CoregateError("no case can run here: widen --core, --variant, --preset or --shape")
    spec = Spec(
        root=str(options.root),
        core_folders=tuple(map(str, options.core_folders)),
        variant_folders=tuple(map(str, options.variant_folders)),
        cache=str(options.cache),
        keys=tuple(case.key for case in session.cases),
        seed=0,
        seconds=arguments.seconds,
        levels=LEVELS,
    )
    path = arguments.folder / f"{machine.machine_class(session.hardware)}{SUFFIX}"
    seed = (lambda: secrets.randbelow(2**31)) if arguments.seed is None else (lambda: arguments.seed or 0)
    kept = record(Plan(path, arguments.runs, arguments.injected_runs, seed), spec, start_process, _tell)
    _tell(f"{kept} of {arguments.runs} runs recorded in {path}")


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


def _report(folder: Path, recording: bool) -> int:
    """Who has just recorded a first few runs did nothing wrong."""
    from perf.store.files import write_atomically
    from perf.study import plots
    from perf.study.analysis import TooFewError, study
    from perf.study.records import SUFFIX
    from perf.study.records import read as read_runs
    from perf.study.report import page

    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise CoregateError(f"{folder} holds no recorded runs: record some with --record N")
    try:
        studies = [study(read_runs(path)) for path in paths]
    except TooFewError as few:
        if not recording:
            raise
        _tell(f"no report yet: {few}")
        return 0
    absent = plots.missing()
    pictures = {} if absent else {found.machine_class: plots.draw(found, folder) for found in studies}
    write_atomically(folder / "README.md", page(studies, pictures))
    for line in filter(None, [absent, f"written to {folder / 'README.md'}"]):
        _tell(line)
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
