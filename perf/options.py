"""Command-line options become frozen data here, at the edge, once."""

from __future__ import annotations

import argparse
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perf.catalogue import Selection
from perf.contract import WEIGHTS, Case
from perf.covering import MATRICES
from perf.errors import CoregateError

if TYPE_CHECKING:
    import pytest

NARROWING = {
    "--core": "cores to run",
    "--variant": "variants to run, in the standard matrix or not",
    "--preset": "presets to run (default: tiny on cpu, full on cuda)",
    "--shape": "shapes to run (default: each preset's first)",
    "--device": "devices to run on: cpu, cuda (default: cuda where there is one)",
}
INI = {
    "perf_cores": "folders of core files, each with CORES = [...], relative to the rootdir",
    "perf_variants": "folders of further variant files, each with VARIANTS = [...]",
}


@dataclass(frozen=True)
class Options:
    """What the user asked for. `active` is whether this project has cores at all: without, the plugin does nothing."""

    root: Path
    command: str
    """As it was given: `pytest -m latency …`."""
    core_folders: tuple[Path, ...]
    variant_folders: tuple[Path, ...]
    selection: Selection
    default_device: bool
    seed: int
    compare: str | bool | None
    save: str | None
    cases: tuple[str, ...]
    """Keys from `--case`; empty where none was given."""
    precompile: int
    """Processes that compile what is timed, before anything is; 0 for none."""
    confirm: int
    inconclusive: str
    require_baseline: bool
    strict_catalogue: bool
    report: Path | None
    graph_report: Path | None
    placement_report: Path | None
    traces: Path | None
    accept_counters: bool
    baselines: Path
    cache: Path
    weights: Mapping[str, str]
    """Core → checkpoint, from `--weights CORE=PATH`."""
    weights_module: str
    """Dotted name of the module whose `load_into(module, path)` and `save_as(module, path)` read and write them."""

    @property
    def everything(self) -> Selection:
        """The whole product on the devices of this run."""
        return Selection(presets=("*",), devices=self.selection.devices, matrix="full")

    @property
    def comparing(self) -> bool:
        """Whether this run is to be laid beside accepted ones."""
        return bool(self.compare) or self.require_baseline

    @property
    def active(self) -> bool:
        return bool(self.core_folders)


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("coregate", "coregate: which cases, and against what")
    _add_choices(group)
    _add_verdicts(group)
    _add_files(group)
    for name, what in INI.items():
        parser.addini(name, what, type="args", default=[])
    parser.addini("perf_weights", "module with load_into(module, path) and save_as(module, path)", default="")
    parser.addini("perf_baselines", "folder of accepted runs, one folder a machine class", default="perf/baselines")


def _add_choices(group: pytest.OptionGroup) -> None:
    for option, what in NARROWING.items():
        group.addoption(option, action="append", default=[], metavar="PATTERN", help=f"{what}; repeatable")
    group.addoption(
        "--matrix",
        choices=MATRICES,
        default="standard",
        help="the variants everyone wants (default); every option value at least once; the whole product",
    )
    group.addoption("--perf-seed", type=int, metavar="N", help="seed of parity's inputs (default: drawn, printed)")
    group.addoption(
        "--case", action="append", default=[], metavar="KEY", help="run this case alone, by its key; repeatable"
    )
    group.addoption(
        "--precompile",
        type=_times,
        default=0,
        metavar="N",
        help="compile in N processes before anything is timed (default: 0, each case when its turn comes)",
    )
    group.addoption("--weights", action="append", default=[], metavar="CORE=PATH", help="run CORE with this checkpoint")


def _add_verdicts(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--confirm",
        type=_times,
        default=2,
        metavar="N",
        help="measure a suspect again in N fresh processes (default: 2)",
    )
    group.addoption(
        "--inconclusive",
        choices=("fail", "pass"),
        default="fail",
        help="exit status where nothing is worse and something could not be told: 6 (default), or 0",
    )
    group.addoption("--require-baseline", action="store_true", help="compare, and fail where there is no baseline")
    group.addoption(
        "--strict-catalogue", action="store_true", help="fail where a case cannot run for want of a package or a device"
    )
    group.addoption("--accept-counters", action="store_true", help="take this run's counters as the new counters.json")


def _add_files(group: pytest.OptionGroup) -> None:
    group.addoption("--report", metavar="FILE.md", help="write all tables to FILE.md as well, for a CI job's summary")
    group.addoption("--graph-report", metavar="FILE.json", help="write graphs, breaks and recompiles to FILE.json")
    group.addoption(
        "--placement-report", metavar="FILE.json", help="write which node ran on which provider to FILE.json"
    )
    group.addoption("--traces", metavar="FOLDER", help="write a trace of one call of each timed case into FOLDER")


def read_options(config: pytest.Config) -> Options:
    """As the command line and the configuration have them.

    Raises:
        CoregateError: a value that means nothing, or a comparison that could not be.
    """
    options = _read(config)
    if options.active:
        _refuse_silence(options, config.option)
    return options


def _refuse_silence(options: Options, given: argparse.Namespace) -> None:
    """pytest-benchmark passes in silence where nothing was measured; a comparison that cannot be is a usage error."""
    if options.compare == "":
        raise CoregateError("--benchmark-compare= names no run: give a run's number, or no = to compare with all")
    if not options.comparing:
        return
    asked = "--benchmark-compare" if options.compare else "--require-baseline"
    if getattr(given, "dist", "no") != "no":
        raise CoregateError(f"{asked} under xdist measures nothing: run it without -n")
    if given.benchmark_disable or given.benchmark_skip:
        raise CoregateError(f"{asked} with benchmarks off measures nothing: drop --benchmark-disable/-skip")


def _read(config: pytest.Config) -> Options:
    option = config.option
    root = config.rootpath
    return Options(
        root=root,
        command=shlex.join(["pytest", *map(str, config.invocation_params.args)]),
        core_folders=tuple(root / name for name in config.getini("perf_cores")),
        variant_folders=tuple(root / name for name in config.getini("perf_variants")),
        selection=_selection(option),
        default_device=not option.device and not option.case,
        seed=secrets.randbelow(2**31) if option.perf_seed is None else option.perf_seed,
        compare=getattr(option, "benchmark_compare", None),
        save=getattr(option, "benchmark_save", None),
        cases=tuple(option.case),
        precompile=option.precompile,
        confirm=option.confirm,
        inconclusive=option.inconclusive,
        require_baseline=option.require_baseline,
        strict_catalogue=option.strict_catalogue,
        report=Path(option.report) if option.report else None,
        graph_report=Path(option.graph_report) if option.graph_report else None,
        placement_report=Path(option.placement_report) if option.placement_report else None,
        traces=Path(option.traces) if option.traces else None,
        accept_counters=option.accept_counters,
        baselines=root / config.getini("perf_baselines"),
        cache=root / ".cache" / "coregate",
        weights=dict(_core_and_path(given) for given in option.weights),
        weights_module=config.getini("perf_weights"),
    )


def _selection(option: argparse.Namespace) -> Selection:
    """By patterns; or, where cases are named, what is wide enough to hold them."""
    if option.case:
        return _holding([_case(key) for key in option.case])
    return Selection(
        cores=tuple(option.core),
        variants=tuple(option.variant),
        presets=tuple(option.preset),
        shapes=tuple(option.shape),
        devices=tuple(option.device) or ("cpu",),
        matrix=option.matrix,
    )


def _holding(cases: Sequence[Case]) -> Selection:
    shapes = {case.shape for case in cases} - {WEIGHTS}
    return Selection(
        cores=tuple(sorted({case.core for case in cases})),
        variants=tuple(sorted({case.variant for case in cases})),
        presets=tuple(sorted({case.preset for case in cases})),
        shapes=tuple(sorted(shapes)),
        devices=tuple(sorted({case.device for case in cases})),
    )


def _case(key: str) -> Case:
    try:
        return Case.parse(key)
    except ValueError as error:
        raise CoregateError(f"--case {error}: copy one from the table, with slashes for blanks") from None


def _times(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: a number of processes is wanted, 0 or more")
    return int(text)


def _core_and_path(given: str) -> tuple[str, str]:
    core, equals, path = given.partition("=")
    if not (core and equals and path):
        raise CoregateError(f"--weights {given}: give CORE=PATH, such as --weights deeplabv3=deeplab.safetensors")
    return core, path
