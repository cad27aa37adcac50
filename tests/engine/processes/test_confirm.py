"""Suspects go to fresh processes: real ones, and what is made of what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perf.confirm import Command
from perf.errors import CoregateError
from tests.engine.gate_toys import record

if TYPE_CHECKING:
    from conftest import Project

KEY = "toy/tiny/eager-fp32/b5/cpu"


def recorded(project: Project, latency_s: float | None = None) -> Path:
    """A baseline of one run, its latency as given where it is."""
    path = record(project)
    if latency_s is not None:
        document = json.loads(path.read_text())
        document["benchmarks"][0]["stats"]["median"] = latency_s
        document["machine_info"]["coregate"]["controls"] = {}
        path.write_text(json.dumps(document))
    return path


def test_a_slowdown_that_a_fresh_process_sees_as_well_is_regressed(project: Project) -> None:
    recorded(project)
    project.core(before="time.sleep(0.02)")
    result = project.time("--benchmark-compare", "--confirm=1")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"regressed: {KEY}: latency_s +*over a budget of +5%, again +*provisional*"])


def test_a_slowdown_of_the_first_process_alone_is_inconclusive(project: Project) -> None:
    """The core is slow in the process that has the variable, which it takes away for its children."""
    recorded(project, 0.004)  # between what the first process and its child take, whatever the machine does
    project.core(before="time.sleep(0.02) if SLOW else None")
    text = (project.path / "mycores/toy.py").read_text()
    slow_here = "import os\nSLOW = os.environ.pop('SLOW_HERE', '')\n"
    (project.path / "mycores/toy.py").write_text(slow_here + text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOW_HERE", "yes")
        result = project.time("--benchmark-compare", "--confirm=1")
    assert result.ret == 6
    result.stdout.fnmatch_lines(["*1 inconclusive", f"inconclusive: {KEY}: latency_s: again *provisional*"])


INTERRUPTED = {
    "in a test": """
        def pytest_runtest_teardown():
            raise KeyboardInterrupt
    """,
    "while it finishes": """
        import os
        import signal


        def pytest_benchmark_update_machine_info(config, machine_info):
            os.kill(os.getpid(), signal.SIGINT)
    """,
    "in the second look": """
        import os
        import signal
        import time
        from perf import children


        def run(*_):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)


        children.run = run
    """,
}


@pytest.mark.parametrize("when", INTERRUPTED)
def test_an_interrupted_run_says_what_it_measured_and_looks_no_further(project: Project, when: str) -> None:
    recorded(project, 1e-9)
    project.write("interrupting.py", INTERRUPTED[when])
    suite = ("--pyargs", "perf.suites.test_latency", "--variant", "eager-fp32", "--benchmark-max-time=0.02")
    asked = (
        "-p",
        "interrupting",
        "--benchmark-compare",
        "--confirm=1",
        "--report=report.md",
        "--benchmark-json=j.json",
    )
    result = project.pytester.runpytest_subprocess(*suite, *asked)
    assert result.ret == 2
    told = (project.path / "report.md").read_text()
    assert f"regressed: {KEY}: latency_s" in told
    assert len(json.loads((project.path / "j.json").read_text())["benchmarks"]) == 1
    broken_off = "interrupted: suspects were measured again 0 times, 1 were asked for"
    assert (broken_off in told) is (when != "in a test")
    assert ("measuring again" in result.stdout.str()) is (when == "in the second look")


def test_inconclusive_passes_where_it_is_allowed(project: Project) -> None:
    path = recorded(project, 1.0)
    noisy = json.loads(path.read_text())
    for number, latency_s in ((2, 1e-5), (3, 1e3)):  # a baseline that says nothing
        noisy["benchmarks"][0]["stats"]["median"] = latency_s
        path.with_name(f"000{number}_noisy.json").write_text(json.dumps(noisy))
    assert project.time("--benchmark-compare").ret == 6
    result = project.time("--benchmark-compare", "--inconclusive=pass")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*1 inconclusive", f"inconclusive: {KEY}: *"])


def files(project: Project) -> set[Path]:
    """But for those of caches."""
    found = (path for path in project.path.rglob("*") if path.is_file())
    return {path for path in found if not {"__pycache__", ".cache"} & set(path.parts)}


WRITING = (
    "--benchmark-save=nightly --benchmark-autosave --benchmark-json=run.json --benchmark-histogram=histogram "
    "--benchmark-cprofile=tottime --benchmark-cprofile-dump=profile --report=r.md --graph-report=g.json "
    "--placement-report=p.json --accept-counters --traces=traces --junitxml=j.xml --basetemp=base"
)


def test_what_a_run_writes_by_its_configuration_a_second_look_does_not(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--basetemp` would empty a folder that the run is using."""
    project.write("base/of_the_run.txt", "")
    before = files(project)
    monkeypatch.setenv("PYTEST_ADDOPTS", WRITING)
    command = Command(("--pyargs", "perf.suites", "--benchmark-max-time=0.02", "-m", "latency"), project.path)
    assert list(command.measure([KEY])) == [KEY]
    assert files(project) == before


def test_a_process_that_writes_no_run_is_one_line(tmp_path: Path) -> None:
    command = Command(("--no-such-option",), tmp_path)
    with pytest.raises(CoregateError, match=r"again: .*unrecognized arguments: --no-such-option"):
        command.measure([KEY])


def test_who_compiles_anew_has_a_cache_that_nobody_else_has(project: Project) -> None:
    """The core is slow where the cache is the run's own, and its code says that autotuning chose otherwise: as code
    that a worse choice went into, and that another compilation has not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(project.path / "cache"))
        path = recorded(project)
        document = json.loads(path.read_text())
        document["benchmarks"][0]["extra_info"]["coregate"]["notes"]["kernel_choices_digest"] = "c0ffee00"
        path.write_text(json.dumps(document))
        unlucky = (
            f"time.sleep(0.02) if os.environ['TORCHINDUCTOR_CACHE_DIR'] == {str(project.path / 'cache')!r} else None"
        )
        project.core(before=unlucky)
        core = project.path / "mycores/toy.py"
        core.write_text(f"import os\n{core.read_text()}")
        patch.setattr("perf.workbench.as_notes", lambda choices: {"kernel_choices_digest": "badf00d0"})
        result = project.time("--benchmark-compare", "--confirm=1")
    result.stdout.fnmatch_lines([f"measuring again in a fresh process, compiled anew, 1 of 1: {KEY}"])
    assert result.ret == 6
    result.stdout.fnmatch_lines([f"inconclusive: {KEY}: latency_s: again *provisional*"])
