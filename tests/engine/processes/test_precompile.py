"""Compiling before timing: real processes on a toy, each variant once, and what does not build there does no harm."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.engine.processes.watched import alive, within

if TYPE_CHECKING:
    from conftest import Project

PIDS = """
import os
import signal
import sys
import threading
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


def crashing(plan):
    if Path({folder!r}, "main").read_text() != str(os.getpid()):
        os.kill(os.getpid(), 11)
    return noted(plan)


def crashing_once(plan):
    if not Path({folder!r}, "crashed").exists():
        Path({folder!r}, "crashed").touch()
        os.kill(os.getpid(), 11)
    return noted(plan)


def gone(plan):
    if Path({folder!r}, "main").read_text() != str(os.getpid()):
        os._exit(0)
    return noted(plan)


def lingering(plan):
    if Path({folder!r}, "main").read_text() != str(os.getpid()):
        threading.Thread(target=time.sleep, args=(300,)).start()
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


BUILDS = (noted, broken, killed, crashing, crashing_once, gone, lingering, endless, stubborn, waiting, skipped, leaving)
VARIANTS = [Variant(f"way-{{build.__name__}}", build, standard_on=()) for build in BUILDS]
"""


BUILT = """
import os
from pathlib import Path


def build():
    if Path({folder!r}, "main").read_text() == str(os.getpid()):
        Path({folder!r}, "built").touch()
    return Toy().eval()

"""


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
    result.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-noted/b5/cpu: * s", "*precompiling*"])
    here = Path(ways.path / "main").read_text()
    first, last = Path(ways.path / "pids").read_text().split()
    assert (first != here, last) == (True, here)


def test_graphs_are_counted_while_others_compile(ways: Project) -> None:
    """What compiles does not end before the run itself has built the core, which it does here to count its graphs."""
    ways.core(before="pass")
    toy = (ways.path / "mycores" / "toy.py").read_text().replace("Preset(lambda: Toy().eval()", "Preset(build")
    ways.write("mycores/toy.py", BUILT.format(folder=str(ways.path)) + toy)
    result = ways.run("-m", "graphbreaks or parity", "--variant", "way-waiting", "--precompile", "1")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-waiting/b5/cpu: * s"])


def test_what_has_its_test_skipped_or_ends_the_process_does_no_harm(ways: Project) -> None:
    asked = ("-m", "parity", "--variant", "way-skipped", "--variant", "way-leaving")
    result = ways.run(*asked, "--precompile", "1")
    result.assert_outcomes(skipped=1, failed=1)
    result.stdout.fnmatch_lines_random(
        ["compiled * of 2: *, Skipped: not today", "compiled * of 2: *, SystemExit: no licence"]
    )


class Script(NamedTuple):
    """A script that runs pytest, `files` what it and its processes left, by name."""

    result: pytest.RunResult
    files: dict[str, str]


@pytest.fixture(scope="module")
def scripts() -> list[Script]:
    """The one that `script` runs."""
    return []


@pytest.fixture
def script(ways: Project, scripts: list[Script]) -> Script:
    if not scripts:
        asked = ["--pyargs", "perf.suites", "-m", "parity", "--variant", "way-noted", "--precompile", "1", "-s"]
        ways.write("go.py", f"open('runs', 'a').write('x')\nimport pytest\nraise SystemExit(pytest.main({asked}))\n")
        result = ways.pytester.run(sys.executable, "go.py")
        scripts.append(Script(result, {name: (ways.path / name).read_text() for name in ("main", "pids", "runs")}))
    return scripts[0]


def test_what_is_said_elsewhere_is_not_the_runs(script: Script) -> None:
    script.result.assert_outcomes(passed=1)
    here = script.files["main"]
    assert [line for line in script.result.outlines if "noted by" in line] == [f"noted by {here}"]
    assert len(script.files["pids"].split()) == 2


def test_a_script_that_runs_pytest_is_not_run_again_by_those_who_compile(script: Script) -> None:
    assert script.result.ret == 0
    script.result.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-noted/b5/cpu: * s"])
    assert script.files["runs"] == "x"


@pytest.mark.parametrize("option", ["--collect-only", "--setup-plan", "--setup-only"])
def test_nothing_is_compiled_where_nothing_is_run(ways: Project, option: str) -> None:
    ways.run("-m", "parity", "--variant", "way-noted", "--precompile", "1", option)
    assert not (ways.path / "pids").exists()


def test_what_does_not_build_there_is_met_again(ways: Project) -> None:
    result = ways.run("-m", "parity", "--variant", "way-broken", "--precompile", "1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["compiled 1 of 1: toy/tiny/way-broken/b5/cpu, RuntimeError: no such compiler"])


def test_what_is_killed_there_is_left_to_the_run_and_the_rest_is_compiled(ways: Project) -> None:
    result = ways.run("-m", "parity", "--variant", "way-killed", "--variant", "way-noted", "--precompile", "2")
    result.assert_outcomes(passed=2)
    killed = "the process that compiled toy/tiny/way-killed/b5/cpu was killed by SIGKILL (*)"
    result.stdout.fnmatch_lines_random(
        [
            f"compiled * of 2: {killed}: it is compiled when its turn comes",
            "compiled * of 2: toy/tiny/way-noted/b5/cpu: * s",
        ]
    )


def test_what_crashes_there_twice_is_not_built_here_and_the_rest_is_compiled(ways: Project) -> None:
    """A thread that does not end is not waited for. What crashes beside another crash may be tried again unsaid."""
    asked = ("way-crashing", "way-crashing_once", "way-lingering", "way-gone")
    result = ways.run("-m", "parity or latency", *(f"--variant={way}" for way in asked), "--precompile", "2")
    result.assert_outcomes(passed=4, failed=4)
    crashed = "the process that compiled toy/tiny/{}/b5/cpu was killed by SIGSEGV"
    result.stdout.fnmatch_lines_random(
        [
            f"{crashed.format('way-crashing')}: it is tried once more",
            f"compiled * of 4: {crashed.format('way-crashing')}",
            *(f"compiled * of 4: toy/tiny/{way}/b5/cpu: * s" for way in asked[1:3]),
            "wrong: toy/tiny/way-gone/b5/cpu: did not build: CrashError: * ended with status 0, twice",
            f"wrong: toy/tiny/way-crashing/b5/cpu: did not build: CrashError: {crashed.format('way-crashing')}, twice",
        ]
    )


def test_what_crashes_once_is_compiled_after_all(ways: Project) -> None:
    result = ways.run("-m", "parity", "--variant=way-crashing_once", "--precompile", "1")
    result.assert_outcomes(passed=1)
    crashed = "the process that compiled toy/tiny/way-crashing_once/b5/cpu was killed by SIGSEGV: it is tried once more"
    result.stdout.fnmatch_lines([crashed, "compiled 1 of 1: toy/tiny/way-crashing_once/b5/cpu: * s"])


@pytest.mark.parametrize(
    ("how", "way"), [(signal.SIGKILL, "endless"), (signal.SIGINT, "endless"), (signal.SIGINT, "stubborn")]
)
def test_a_run_takes_its_compiling_processes_with_it(ways: Project, how: signal.Signals, way: str) -> None:
    command = [sys.executable, "-m", "pytest", "-m", "parity", "--variant", f"way-{way}", "--precompile", "1"]
    run = subprocess.Popen([*command, "--pyargs", "perf.suites"], cwd=ways.path, stdout=subprocess.DEVNULL)
    worker = int(within(60, lambda: (ways.path / "pids").exists() and (ways.path / "pids").read_text().strip()))
    run.send_signal(how)
    run.wait(timeout=60)
    within(60, lambda: not alive(worker))
