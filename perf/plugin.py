"""The pytest room: options, marks, parametrisation, fixtures, hooks. No maths, and no torch until a run collects.

Without `perf_cores` in the project's pytest configuration the plugin does nothing at all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from perf.errors import CoregateError, UnsupportedError
from perf.interrupts import give_up_unfinished
from perf.logs import hide_torchs_trace
from perf.options import Options, add_options, read_options
from perf.terminal import teller

if TYPE_CHECKING:
    from perf.catalogue import Catalogue, Selection
    from perf.confirm import Command
    from perf.gate import Gate
    from perf.measure.ledger import Ledger
    from perf.session import Session

MARKS = {
    "parity": "is the variant right? outputs against the float64 reference",
    "graphbreaks": "is the core whole? graphs, breaks and recompiles, counted with a cheap backend",
    "recompiles": "does the warm-up cover what is served? a core's serving plan, with no compilation in it",
    "placement": "is it where it was asked to be? ONNX Runtime's nodes on each provider, and the copies between",
    "perf_budget": "by how much a metric of this test's cases may grow: perf_budget(latency_s=0.1)",
    "latency": "is the variant fast? what a caller waits",
    "coldstart": "how soon does it start? fresh processes; runs only where it is asked for, by -m or by its file",
    "warmup": "does a warm-up help the request? fresh processes; runs only where it is asked for, by -m or by its file",
    "loading": "how soon are weights in? .pt and .safetensors; runs only where it is asked for, by -m or by its file",
}
OPTIONS: pytest.StashKey[Options] = pytest.StashKey()
SESSION: pytest.StashKey[Session] = pytest.StashKey()
GATE: pytest.StashKey[Gate] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before pytest-benchmark's own: it would look for baselines where ours are not."""
    for name, what in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {what}")
    try:
        options = read_options(config)
    except CoregateError as error:
        raise pytest.UsageError(str(error)) from None
    if options.active:
        config.stash[OPTIONS] = options
        config.option.benchmark_compare = None


def pytest_report_header(config: pytest.Config) -> list[str]:
    options = config.stash.get(OPTIONS, None)
    return [f"coregate: {options.selection.matrix} matrix, inputs from --perf-seed {options.seed}"] if options else []


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    options = session.config.stash.get(OPTIONS, None)
    if options is None:
        return
    hide_torchs_trace(session.config)
    ledger = _import_engine()
    from perf.gate import Gate
    from perf.session import Session

    try:
        run = Session.start(options, ledger)
        gate = Gate.open(run, session.config._benchmarksession, _again(session.config))  # type: ignore[attr-defined]
    except CoregateError as error:
        raise pytest.UsageError(str(error)) from None
    session.config.stash[SESSION], session.config.stash[GATE] = run, gate


def _import_engine() -> Ledger:
    """The run's ledger, charged with what importing took."""
    from perf.measure.ledger import Ledger

    ledger = Ledger()
    try:
        with ledger.span("importing"):
            importlib.import_module("perf.gate")
    except ModuleNotFoundError as error:
        raise pytest.UsageError(
            f"package {error.name} is not installed in {sys.prefix}: pip install coregate"
        ) from None
    return ledger


def _again(config: pytest.Config) -> Command:
    """This run's own command line, without what chose its cases."""
    from perf.confirm import Command, carried

    given = config.option
    arguments = [*(["--pyargs"] if given.pyargs else []), *config.args, f"--rootdir={config.rootpath}"]
    arguments += [f"-c={config.inipath}"] if config.inipath else []
    arguments += [part for override in given.override_ini or () for part in ("-o", override)]
    arguments += [part for weights in given.weights for part in ("--weights", weights)]
    arguments += carried(given)
    arguments += [f"--perf-seed={config.stash[OPTIONS].seed}"]
    return Command(tuple(map(str, arguments)), config.invocation_params.dir, teller(config))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run = metafunc.config.stash.get(SESSION, None)
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", _case_params(run) if run else [])
    from perf.subjects import graph_subjects, load_subjects, plan_subjects

    for name, subjects in (
        ("graph_subject", graph_subjects),
        ("plan_subject", plan_subjects),
        ("load_subject", load_subjects),
    ):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, _subject_params(run, subjects) if run else [])


def _subject_params(run: Session, subjects: Callable[[Catalogue, Selection], Sequence[Any]]) -> list[Any]:
    return [_subject_param(run, subject) for subject in subjects(run.catalogue, run.options.selection)]


def _subject_param(run: Session, subject: Any) -> Any:
    lacking = run.catalogue.cores[subject.core].missing()
    return pytest.param(subject, id=subject.key, marks=[pytest.mark.skip(reason=lacking)] if lacking else [])


def _case_params(run: Session) -> list[Any]:
    ready = [pytest.param(case, id=case.key) for case in run.cases]
    skipped = [
        pytest.param(skip.case, id=skip.case.key, marks=pytest.mark.skip(reason=skip.reason)) for skip in run.skips
    ]
    return ready + skipped


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    run = config.stash.get(SESSION, None)
    if run is None:
        return
    from perf.items import chosen, concerning, read_budgets

    items[:] = concerning(run, items)
    kept = chosen(run, items, (config.option.markexpr, *map(str, config.args)))
    read_budgets(run, kept)
    left = [item for item in items if item not in set(kept)]
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Nothing is measured while others compile. What is said of that is not the test's: its setup would capture it."""
    run = item.config.stash.get(SESSION, None)
    if run is not None:
        from perf.items import make_ready

        make_ready(run, item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Marks have been asked for by now; and what compiles begins to, where `--precompile` asks for it."""
    run = session.config.stash.get(SESSION, None)
    if run is None:
        return
    from perf.items import concerns_cases, to_run
    from perf.precompile import begin

    run.asked = concerns_cases(session.items)
    begin(run, to_run(session), session.config.stash[GATE].again.tell)


@pytest.fixture(scope="session")
def gate_session(pytestconfig: pytest.Config) -> Iterator[Session]:
    """What this run knows; the suites ask it. Closes the last variant on the way out.

    Raises:
        pytest.UsageError: the project names no cores.
    """
    run = pytestconfig.stash.get(SESSION, None)
    if run is None:
        raise pytest.UsageError("no cores: set perf_cores = <folder of core files> in the pytest configuration")
    yield run
    run.workbench.close()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """What a variant cannot do with a core is found while it is built, and is a skip wherever it surfaces; what the
    user must mend first (a file that cannot be read, a cache that cannot be written) ends the run. In the suites alone:
    in any other test an exception is an exception.
    """
    if "gate_session" not in pyfuncitem.fixturenames:
        return (yield)
    try:
        return (yield)
    except UnsupportedError as reason:
        from perf.items import decline

        decline(pyfuncitem.config.stash[SESSION], pyfuncitem, str(reason))
        pytest.skip(str(reason))
    except CoregateError as problem:
        pytest.exit(str(problem), returncode=problem.exit_code)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """After the last test SIGINT waits until what was measured is written."""
    try:
        return (yield)
    finally:
        if GATE in session.config.stash:
            session.config.stash[GATE].interrupts.hold()
            give_up_unfinished(session.config._benchmarksession.benchmarks)  # type: ignore[attr-defined]


def pytest_unconfigure(config: pytest.Config) -> None:
    if GATE in config.stash:
        config.stash[GATE].interrupts.release()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if GATE in session.config.stash:
        session.exitstatus = session.config.stash[GATE].finish(int(session.exitstatus))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    gate = config.stash.get(GATE, None)
    for title, lines in gate.sections() if gate else ():
        terminalreporter.section(title, sep="-")
        terminalreporter.write_line("\n".join(lines))


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    run = config.stash.get(SESSION, None)
    if run is not None:
        machine_info["coregate"] = run.machine_info()
