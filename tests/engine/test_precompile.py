"""Compiling before timing: real processes on a toy, each variant once, and what does not build there does no harm."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Thread, Timer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, Mock

import pytest
from torch import nn

from perf import precompile
from perf.check.graph_report import GraphReport
from perf.contract import Case, GraphSubject, LoadSubject, Preset, Variant
from perf.errors import first_line
from perf.gate import Gate
from perf.items import _rank, settle_before, to_run
from perf.measure.ledger import Ledger
from perf.outcome import Row
from perf.precompile import worth_it
from perf.room import Room
from perf.session import Session
from perf.wholeness import graphs

if TYPE_CHECKING:
    from conftest import Project

PIDS = """
import os
import signal
import sys
import time
from pathlib import Path
import pytest
from perf.contract import Variant
from perf.runners import ModuleRunner


def noted(plan):
    with Path({folder!r}, "pids").open("a") as file:
        file.write(f"{{os.getpid()}}\\n")
    print(f"\\nnoted by {{os.getpid()}}")
    return ModuleRunner(plan.module("float32"), "float32", plan.device)


def broken(plan):
    raise RuntimeError("no such compiler\\nand more")


def killed(plan):
    if Path({folder!r}, "main").read_text() != str(os.getpid()):
        os.kill(os.getpid(), 9)
    return noted(plan)


def endless(plan):
    noted(plan)
    time.sleep(300)


def stubborn(plan):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    endless(plan)


def waiting(plan):
    for _ in range(600):
        if Path({folder!r}, "built").exists():
            return noted(plan)
        time.sleep(0.1)
    raise RuntimeError("the run waits for this")


def skipped(plan):
    pytest.skip("not today")


def leaving(plan):
    sys.exit("no licence")


BUILDS = {{
    "noted": noted,
    "broken": broken,
    "killed": killed,
    "endless": endless,
    "stubborn": stubborn,
    "waiting": waiting,
    "skipped": skipped,
    "leaving": leaving,
}}
VARIANTS = [Variant(f"way-{{name}}", build, standard_on=()) for name, build in BUILDS.items()]
"""


BUILT = """
import os
from pathlib import Path


def build():
    if Path({folder!r}, "main").read_text() == str(os.getpid()):
        Path({folder!r}, "built").touch()
    else:
        {elsewhere}
    return Toy().eval()

"""


def build_telling(ways: Project, elsewhere: str = "pass") -> None:
    """The run leaves a file when it has built the core; other processes do what `elsewhere` says first."""
    toy = (ways.path / "mycores" / "toy.py").read_text().replace("Preset(lambda: Toy().eval()", "Preset(build")
    ways.write("mycores/toy.py", BUILT.format(folder=str(ways.path), elsewhere=elsewhere) + toy)


@pytest.fixture
def ways(project: Project) -> Project:
    project.write("ways/ways.py", PIDS.format(folder=str(project.path)))
    options = "addopts = --import-mode=importlib --device cpu -p no:cacheprovider"
    project.write("pytest.ini", f"[pytest]\nperf_cores = mycores\nperf_variants = ways\n{options}\n")
    project.write(
        "conftest.py",
        "import os, pathlib\n\n\ndef pytest_configure():\n"
        "    pathlib.Path(__file__).with_name('main').write_text(str(os.getpid()))\n",
    )
    return project


def test_what_compiles_is_built_elsewhere_before_it_is_built_here(ways: Project) -> None:
    result = ways.run("-m", "parity", "--variant", "way-noted", "--variant", "eager-fp32", "--precompile", "2")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-noted/b5/cpu, * s", "*precompiling*"])
    here = Path(ways.path / "main").read_text()
    first, last = Path(ways.path / "pids").read_text().split()
    assert (first != here, last) == (True, here)


def test_graphs_are_counted_while_others_compile(ways: Project) -> None:
    """What compiles does not end before the run itself has built the core, which it does here to count its graphs: the
    first, while the one process has others waiting."""
    ways.core(before="pass")
    build_telling(ways)
    asked = ("-m", "graphbreaks or parity", "--matrix", "covering", "--variant", "way-waiting")
    result = ways.run(*asked, "--precompile", "1")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-waiting/b5/cpu, * s"])


def test_what_has_its_test_skipped_or_ends_the_process_does_no_harm(ways: Project) -> None:
    asked = ("-m", "parity", "--variant", "way-skipped", "--variant", "way-leaving")
    result = ways.run(*asked, "--precompile", "1")
    result.assert_outcomes(skipped=1, failed=1)
    result.stdout.fnmatch_lines_random(
        ["compiled * of 2: *, Skipped: not today", "compiled * of 2: *, SystemExit: no licence"]
    )


def test_what_is_said_elsewhere_is_not_the_runs(ways: Project) -> None:
    asked = ("-m", "parity", "--variant", "way-noted", "--precompile", "1", "--capture=no")
    result = ways.pytester.runpytest_subprocess("--pyargs", "perf.suites", *asked)
    result.assert_outcomes(passed=1)
    here = (ways.path / "main").read_text()
    assert [line for line in result.outlines if "noted by" in line] == [f"noted by {here}"]
    assert len((ways.path / "pids").read_text().split()) == 2


def test_a_script_that_runs_pytest_is_not_run_again_by_those_who_compile(ways: Project) -> None:
    asked = ["--pyargs", "perf.suites", "-m", "parity", "--variant", "way-noted", "--precompile", "1"]
    ways.write("go.py", f"open('runs', 'a').write('x')\nimport pytest\nraise SystemExit(pytest.main({asked}))\n")
    found = ways.pytester.run(sys.executable, "go.py")
    assert found.ret == 0
    found.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-noted/b5/cpu, * s"])
    assert (ways.path / "runs").read_text() == "x"


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan", "--setup-only"])
def test_nothing_is_compiled_where_nothing_is_run(ways: Project, option: str) -> None:
    ways.run("-m", "parity", "--variant", "way-noted", "--precompile", "1", option)
    assert not (ways.path / "pids").exists()


def test_what_does_not_build_there_is_met_again(ways: Project) -> None:
    result = ways.run("-m", "parity", "--variant", "way-broken", "--precompile", "1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-broken/b5/cpu, RuntimeError: no such compiler"])


def test_a_killed_process_leaves_the_rest_to_the_run(ways: Project) -> None:
    result = ways.run("-m", "parity", "--variant", "way-killed", "--precompile", "1")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["a compiling process was killed: what is left is compiled when its turn comes"])


@pytest.mark.parametrize(
    ("how", "way"), [(signal.SIGKILL, "endless"), (signal.SIGINT, "endless"), (signal.SIGINT, "stubborn")]
)
def test_a_run_takes_its_compiling_processes_with_it(ways: Project, how: signal.Signals, way: str) -> None:
    command = [sys.executable, "-m", "pytest", "-m", "parity", "--variant", f"way-{way}", "--precompile", "1"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    run = subprocess.Popen(
        [*command, "--pyargs", "perf.suites"], cwd=ways.path, stdout=subprocess.DEVNULL, preexec_fn=heard
    )
    worker = int(within(60, lambda: (ways.path / "pids").exists() and (ways.path / "pids").read_text().strip()))
    run.send_signal(how)
    run.wait(timeout=60)
    within(60, lambda: not alive(worker))


def alive(pid: int) -> bool:
    """Whether it runs: one that has ended and that nobody waits for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def within(seconds: float, found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return result


@pytest.mark.parametrize(("size", "taken"), [(0, []), (2_000, [2.0])])
def test_what_is_large_waits_for_room(monkeypatch: pytest.MonkeyPatch, size: int, taken: list[float]) -> None:
    """2,000 bytes in 1,000, which are 80 % of the memory."""
    monkeypatch.setattr(precompile, "memory_bytes", lambda device: 1_250)
    monkeypatch.setattr(precompile, "SHARE", 0.8)
    bench, room = Mock(), MagicMock()
    monkeypatch.setattr(precompile, "_HERE", [precompile.Here(Mock(workbench=bench), room)])
    assert precompile.compile_case("c/full/any/s/cpu", size).why == ""
    assert bench.first_outputs.call_count == bench.close.call_count == 1
    assert [call.args[0] for call in room.taken.call_args_list] == taken


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_process_is_a_reason(monkeypatch: pytest.MonkeyPatch, ending: type[BaseException]) -> None:
    bench = Mock(first_outputs=Mock(side_effect=ending("no licence")))
    monkeypatch.setattr(precompile, "_HERE", [precompile.Here(Mock(workbench=bench), Mock())])
    assert precompile.compile_case("c/full/any/s/cpu", 0).why == f"{ending.__name__}: no licence"
    assert bench.close.call_count == 1


def test_room_is_for_as_many_as_fit_and_what_is_too_large_is_alone() -> None:
    room, held = Room(multiprocessing.get_context("spawn")), []

    def take(share: float) -> None:
        with room.taken(share):
            held.append(share)

    def taking(share: float) -> Thread:
        thread = Thread(target=take, args=(share,), daemon=True)
        thread.start()
        return thread

    with room.taken(0.6):
        taking(0.4).join(60)
        waiting = [taking(0.41), taking(1.5)]
        for thread in waiting:
            thread.join(0.2)
        assert held == [0.4]
    for thread in waiting:
        thread.join(60)
    assert sorted(held) == [0.4, 0.41, 1.5]


def test_a_question_that_nobody_has_begun_with_is_the_runs_own() -> None:
    begun, failed, broken, waiting = (Future[Any]() for _ in range(4))
    for future in (begun, failed, broken):
        future.set_running_or_notify_cancel()
    begun.set_result(GraphReport(3, (), (), 0, 0, 1))
    failed.set_result(None)
    broken.set_exception(BrokenProcessPool())
    processes = precompile.Precompiler.__new__(precompile.Precompiler)
    futures = {"begun": begun, "failed": failed, "broken": broken, "waiting": waiting}
    processes._answers = {(graphs, subject(core)): (future, 0) for core, future in futures.items()}
    found = {core: processes.answer(graphs, subject(core)) for core in (*futures, "unknown")}
    assert found.pop("begun") == GraphReport(3, (), (), 0, 0, 1)
    assert found == dict.fromkeys(("failed", "broken", "waiting", "unknown"))
    assert waiting.cancelled()


def test_what_needs_room_is_waited_for() -> None:
    waiting = Future[Any]()
    processes = precompile.Precompiler.__new__(precompile.Precompiler)
    processes._answers = {(graphs, subject("large")): (waiting, 2_000)}
    Timer(0.1, waiting.set_result, ("three graphs",)).start()
    assert processes.answer(graphs, subject("large")) == "three graphs"


def test_a_run_counts_itself_what_it_has_no_answer_to_and_what_is_large_beside_nobody() -> None:
    presets = {name: {"tiny": SimpleNamespace(reference=of)} for name, of in (("c", "float64"), ("large", "float32"))}
    cores = {name: SimpleNamespace(presets=found) for name, found in presets.items()}
    run = Session.__new__(Session)
    run.catalogue, run.compiled, run.workbench = Mock(cores=cores), set(), Mock(ledger=Ledger())
    for core in cores:
        run.background = Mock(answer=lambda *_: "counted there")
        assert run.ask(Mock(), subject(core)) == "counted there"
    run.background = Mock(answer=lambda *_: None, wait=lambda: ["compiled"])
    here = Mock(return_value="counted here")
    assert (run.ask(here, subject("c")), run.compiled) == ("counted here", set())
    assert (run.ask(here, subject("large")), run.compiled) == ("counted here", {"compiled"})
    assert (run.ask(here, subject("large")), run.background) == ("counted here", None)


@pytest.mark.parametrize("ending", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_cannot_be_counted_elsewhere_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, ending: type[BaseException]
) -> None:
    room = MagicMock()
    monkeypatch.setattr(precompile, "memory_bytes", lambda device: 1_250)
    monkeypatch.setattr(precompile, "SHARE", 0.8)
    monkeypatch.setattr(precompile, "_HERE", [precompile.Here(Mock(), room)])
    assert precompile.answer(Mock(return_value="three graphs"), subject("c"), 0) == "three graphs"
    assert not room.taken.called
    assert precompile.answer(Mock(side_effect=ending("no")), subject("c"), 500) is None
    room.taken.assert_called_once_with(0.5)


def test_graphs_that_others_counted_are_the_runs(ways: Project) -> None:
    """What fails there is counted again: here the core, which none but the run itself can build."""
    asked = ("-m", "graphbreaks", "--matrix", "covering", "--precompile", "2")
    there = ways.run(*asked)
    there.assert_outcomes(passed=3)
    there.stdout.fnmatch_lines(["3 counted: * graphs, 0 breaks, *"])
    build_telling(ways, elsewhere="raise OSError('not here')")
    again = ways.run(*asked)
    again.assert_outcomes(passed=3)
    assert table(there) == table(again)


def table(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "dynamic=" in line]


def subject(core: str) -> GraphSubject:
    return GraphSubject(core, "tiny", "cpu", None)


def test_a_variant_is_compiled_once_for_all_shapes_unless_it_is_built_for_one_and_the_largest_first() -> None:
    variants = {
        "eager-fp32": Variant("eager-fp32", lambda plan: None, family="eager"),  # type: ignore[arg-type,return-value]
        "any": Variant("any", lambda plan: None, family="compiled"),  # type: ignore[arg-type,return-value]
        "one": Variant("one", lambda plan: None, family="onnx", fixed_shape=True),  # type: ignore[arg-type,return-value]
    }
    references = {"small": "float64", "odd": "float32", "large": "float32", "larger": "float32"}
    cores = {core: SimpleNamespace(presets={"p": Mock(reference=of)}) for core, of in references.items()}
    weights = {"large": nn.Linear(25, 10, bias=False), "larger": nn.Linear(50, 10, bias=False)}  # float32
    bench = SimpleNamespace(weightless=lambda core, preset: weights[core])
    run: Any = SimpleNamespace(catalogue=SimpleNamespace(cores=cores, variants=variants), workbench=bench)
    cases = [Case(core, "p", variant, shape, "cpu") for core in cores for variant in variants for shape in ("s", "t")]
    found = [(case.core, case.variant, case.shape, size) for case, size in worth_it(run, cases).items()]
    assert found == [
        (core, *built, size)
        for core, size in (("larger", 2_000), ("large", 1_000), ("small", 0), ("odd", 0))
        for built in (("any", "s"), ("one", "s"), ("one", "t"))
    ]


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_process_while_it_is_asked_for_its_size_has_none(ending: type[BaseException]) -> None:
    bench = Mock(weightless=Mock(side_effect=ending("no licence")))
    cores = {"c": SimpleNamespace(presets={"full": SimpleNamespace(reference="float32")})}
    run: Any = SimpleNamespace(catalogue=SimpleNamespace(cores=cores), workbench=bench)
    with pytest.raises(KeyboardInterrupt) if ending is KeyboardInterrupt else nullcontext():
        assert precompile._size(run, Case("c", "full", "any", "s", "cpu")) == 0


def test_a_run_says_what_was_compiled_in_vain() -> None:
    notes = {"a": "1 compiled", "b": "1 from the cache", "c": "1 compiled, 1 from the cache", "d": "2 compiled"}
    rows = {key: Row(key, {}, notes={"compile_cache": note}) for key, note in notes.items()} | {"e": Row("e", {})}
    run: Any = SimpleNamespace(compiled={"a", "b", "c", "e", "gone"}, rows=rows, workbench=Mock(ledger=Ledger()))
    gate = Gate(run, None, [], Mock(), Mock())
    assert gate._cost()[1:] == ["compiled beforehand, and compiled again: 2 of 4, the first a"]
    run.compiled = {"b"}
    assert len(gate._cost()) == 1


def test_the_graphs_of_what_is_large_come_last_of_all_graphs() -> None:
    """No other test runs beside a compiler."""
    presets = {
        "tiny": Preset(nn.Identity, lambda shape, seed: {}, ()),
        "full": Preset(nn.Identity, lambda s, x: {}, (), "float32"),
    }
    run: Any = Mock(catalogue=SimpleNamespace(cores={"c": SimpleNamespace(presets=presets)}), cases=[])

    def item(**params: object) -> Any:
        return SimpleNamespace(callspec=SimpleNamespace(params=params), get_closest_marker=lambda name: None)

    large, small = (GraphSubject("c", preset, "cpu", None) for preset in ("full", "tiny"))
    items = [
        item(plan_subject=large),
        item(graph_subject=small),
        item(load_subject=LoadSubject("c", "tiny", "cpu", ".pt")),
    ]
    waited = []
    for one in sorted(items, key=_rank(run)):
        run.settle.reset_mock()
        settle_before(run, one)
        waited.append((next(iter(one.callspec.params)), run.settle.call_count))
    assert waited == [("graph_subject", 0), ("plan_subject", 0), ("load_subject", 1)]


def test_an_error_that_cannot_say_what_it_is_has_its_kind() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("no str")

    assert first_line(MuteError()) == "MuteError: "


def test_what_runs_in_processes_of_its_own_is_not_compiled_beforehand() -> None:
    def item(variant: str, *marks: str) -> Any:
        case = Case("c", "p", variant, "s", "cpu")
        found = SimpleNamespace(params={"case": case})
        return SimpleNamespace(callspec=found, get_closest_marker=lambda name: name if name in marks else None)

    option = SimpleNamespace(collectonly=False, setuponly=False, setupplan=False)
    items = [item("a", "latency"), item("b", "coldstart"), item("c", "skip"), item("a", "parity")]
    session: Any = SimpleNamespace(config=SimpleNamespace(option=option), items=items)
    assert [case.variant for case in to_run(session)] == ["a"]
