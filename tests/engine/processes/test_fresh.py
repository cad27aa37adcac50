"""Cold start: real processes on a toy, and pay-back worked out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perf.fresh import ChildError, ColdStart, Spec, Start, as_metrics, payback_calls, start
from perf.report.coldstart import coldstart_table

ROOT = Path(__file__).parents[3]

if TYPE_CHECKING:
    from conftest import Project


def taking(ready_s: float, later_s: float) -> Start:
    return Start(
        import_s=2.0, build_s=0.25 * ready_s, first_call_s=0.75 * ready_s, later_call_s=later_s, rss_peak_bytes=1
    )


@pytest.mark.parametrize(
    ("ready_s", "later_s", "calls"),
    [
        (11.0, 0.5, 20),  # ten seconds later, half a second saved a call
        (11.0, 0.7, 34),  # 10 / 0.3 = 33.3: paid for in the 34th
        (0.5, 2.0, 0),  # starts no later
        (11.0, 1.0, None),  # saves nothing
        (11.0, 2.0, None),
    ],
)
def test_payback_against_eager(ready_s: float, later_s: float, calls: int | None) -> None:
    assert payback_calls(taking(ready_s, later_s), taking(1.0, 1.0)) == calls


def test_metrics_and_table() -> None:
    found = ColdStart(
        taking(8.0, 0.5), taking(2.0, 0.5), taking(4.0, 0.5), {"session_load_s": 0.25, "optimised_load_s": 0.125}
    )
    eager = ColdStart(taking(1.0, 1.0), taking(1.0, 1.0), None)
    assert as_metrics(found) == {
        "import_s": 2.0,
        "cold_s": 8.0,
        "warm_s": 2.0,
        "rss_peak_bytes": 1.0,
        "artifacts_s": 4.0,
        "session_load_s": 0.25,
        "optimised_load_s": 0.125,
    }
    assert "artifacts_s" not in as_metrics(eager)
    lines = coldstart_table({"c/tiny/fast/s/cpu#coldstart": found, "c/tiny/eager-fp32/s/cpu#coldstart": eager})
    assert lines[1] == "c tiny * s cpu"
    assert [line.split()[0] for line in lines[2:4]] == ["eager-fp32", "fast"]
    assert "250 ms / 125 ms" in lines[3]
    assert lines[4].startswith("loading alone: opening what is served")
    assert "14 cold, 2 warm" in lines[3]  # 7 / 0.5 and 1 / 0.5


def test_a_start_pays_back_against_eager_in_its_own_precision() -> None:
    starts = {"eager-fp32": taking(1.0, 4.0), "eager-bf16": taking(1.0, 1.0), "fast-bf16": taking(11.0, 0.5)}
    found = {f"c/tiny/{name}/s/cpu#coldstart": ColdStart(each, each, None) for name, each in starts.items()}
    lines = coldstart_table(found)
    assert [line.split()[0] for line in lines[2:5]] == ["eager-bf16", "eager-fp32", "fast-bf16"]
    assert "20 cold, 20 warm" in lines[4]  # ten seconds later, half a second saved a call


def spec(project: Project, **fields: str) -> Spec:
    given = {"key": "toy/tiny/eager-fp32/b5/cpu"} | fields
    return Spec(str(project.path), (str(project.path / "mycores"),), (), seed=1, **given)


@pytest.fixture(scope="module")
def starts() -> list[ColdStart]:
    """The one that `started` makes."""
    return []


@pytest.fixture
def started(project: Project, starts: list[ColdStart]) -> ColdStart:
    """Of a toy whose first call takes a second longer."""
    if not starts:
        project.core(before="self.wait()")
        text = (project.path / "mycores/toy.py").read_text()
        waiting = (
            "    def wait(self):\n"
            "        if not hasattr(self, 'waited'):\n"
            "            self.waited = time.sleep(1.0) or True\n\n"
            "    def forward"
        )
        (project.path / "mycores/toy.py").write_text(text.replace("    def forward", waiting))
        starts.append(start(spec(project)))
    return starts[0]


def test_a_case_starts_in_processes_of_its_own(started: ColdStart) -> None:
    assert started.from_artifacts is None  # eager compiles nothing
    for each in (started.cold, started.warm):
        assert min(each.import_s, each.build_s, each.first_call_s, each.later_call_s) > 0
        assert each.rss_peak_bytes > 100 * 2**20  # torch alone holds more


def test_a_slow_first_call_is_the_starts_and_not_the_later_calls(started: ColdStart) -> None:
    assert started.cold.first_call_s >= 1.0
    assert started.cold.later_call_s < 1.0


def test_a_child_that_fails_says_its_last_line(project: Project) -> None:
    project.core(before='raise ValueError("not today")')
    with pytest.raises(ChildError, match="ValueError: not today"):
        start(spec(project))


def test_the_suite_runs_only_where_it_is_asked_for(project: Project) -> None:
    quiet = project.run("--variant", "eager-fp32", "--collect-only", "-q")
    quiet.stdout.no_fnmatch_line("*test_coldstart*")
    quiet.stdout.fnmatch_lines(["*4 deselected*"])  # one start, one warm-up, two formats of weights
    result = project.run("--variant", "eager-fp32", "-m", "coldstart")
    result.assert_outcomes(passed=1, deselected=6)
    result.stdout.fnmatch_lines(
        ["*coregate: cold start*", "*import *cold *warm *pays back after*", "*eager-fp32*0 cold, 0 warm"]
    )


HOLDER = """
import subprocess, sys
held = bytearray(b"x") * (1500 << 20)
ours = "from perf.measure.device import peak_rss_bytes; print(peak_rss_bytes())"
sys.exit(subprocess.run([sys.executable, "-c", ours]).returncode)
"""


def test_a_process_is_not_charged_with_what_its_starter_holds() -> None:
    """The starter holds 1,500 MiB; a process that has loaded torch, and nothing else, well under 1,200."""
    done = subprocess.run([sys.executable, "-c", HOLDER], capture_output=True, text=True, check=True, cwd=ROOT)
    assert 50 << 20 < int(done.stdout) < 1200 << 20


BROKEN_OFF = """
    import pytest
    from perf import fresh

    def start(spec):
        if "/b9/" in spec.key:
            raise KeyboardInterrupt
        one = fresh.Start(1.0, 1.0, 1.0, 1.0, 1)
        return fresh.ColdStart(one, one, None)

    @pytest.fixture(autouse=True)
    def broken_off(monkeypatch):
        monkeypatch.setattr(fresh, "start", start)
"""


def test_a_run_that_is_broken_off_keeps_the_starts_before(project: Project) -> None:
    project.write("conftest.py", BROKEN_OFF)
    options = ("-m", "coldstart", "--variant", "eager-fp32", "--shape", "b*", "--benchmark-json=run.json")
    result = project.pytester.inline_run("--pyargs", "perf.suites", *options, no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    kept = json.loads((project.path / "run.json").read_text())
    assert [row["fullname"] for row in kept["benchmarks"]] == ["toy/tiny/eager-fp32/b5/cpu#coldstart"]
    assert set(kept["machine_info"]["coregate"]["controls"]) == {"matmul", "copy", "launches"}
