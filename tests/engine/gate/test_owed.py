"""What the baseline has and can no longer be measured is missing, whatever was measured of the case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perf.measure.machine import hardware, machine_class
from tests.engine.gate_toys import record
from tests.engine.runs import entry, write_run

if TYPE_CHECKING:
    from conftest import Project

KEY = "toy/tiny/mine/b5/cpu"
MINE = """
from perf.contract import Variant
from perf.errors import UnsupportedError
from perf.runners import ModuleRunner

class Mine(ModuleRunner):
    def run(self, prepared):
        return super().run(prepared) * {factor}

def build(plan):
    {before}
    return Mine(plan.module("float32"), "float32", plan.device)

VARIANTS = [Variant("mine", build, fixed_shape={fixed})]
"""
REFUSES = 'raise UnsupportedError("no such kernel")'


def variant(project: Project, before: str = "pass", factor: float = 1.0, *, fixed: bool = False) -> None:
    project.write("more/mine.py", MINE.format(before=before, factor=factor, fixed=fixed))


def baseline(project: Project, *keys: str) -> None:
    own = machine_class(hardware("cpu"))
    write_run(project.path / "perf/baselines" / own / "0001_a.json", *map(entry, keys), machine=own)


def run(project: Project, mark: str, *arguments: str) -> pytest.RunResult:
    quick = ("--benchmark-max-time=0.02", "--benchmark-min-rounds=5", "--confirm=0", "--variant", "mine")
    return project.run("-o", "perf_variants=more", *quick, "-m", mark, *arguments)


@pytest.mark.parametrize("asked", ["--benchmark-compare", "--require-baseline"])
@pytest.mark.parametrize("mark", ["latency", "coldstart", "warmup"])
def test_what_has_become_unsupported_is_missing(project: Project, mark: str, asked: str) -> None:
    key = KEY if mark == "latency" else f"{KEY}#{mark}"
    variant(project, REFUSES)
    baseline(project, key)
    result = run(project, mark, asked)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"missing: {key}: cannot run here: no such kernel"])


def test_a_warm_up_that_has_become_impossible_is_missing_and_its_case_is_not(project: Project) -> None:
    variant(project, fixed=True)
    baseline(project, KEY, f"{KEY}#warmup")
    result = run(project, "warmup", "--benchmark-compare")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"missing: {KEY}#warmup: cannot run here: one shape is all that is built*"])
    result.stdout.no_fnmatch_line(f"missing: {KEY}: *")


def test_weights_that_are_gone_are_missing(project: Project) -> None:
    text = (project.path / "mycores/toy.py").read_text()
    bare = text.replace("hidden = self.first(x).relu()", "return x").replace("torch.nn.Linear(", "str(")
    project.write("mycores/toy.py", bare.replace("str(16, 32)", "None").replace("str(32, 7)", "None"))
    variant(project)
    key = "toy/tiny/eager-fp32/weights/cpu#load.pt"
    baseline(project, key)
    result = project.run("-m", "loading", "--benchmark-compare")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"missing: {key}: cannot run here: the core has no weights to load"])


def test_what_is_wrong_is_not_missing_as_well(project: Project) -> None:
    variant(project, factor=1.5)
    baseline(project, KEY, f"{KEY}#coldstart")
    result = run(project, "latency", "--benchmark-compare")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"wrong: {KEY}: not at parity: *"])
    result.stdout.no_fnmatch_line("missing: *")


@pytest.mark.parametrize("arguments", [("-n", "2"), ("--benchmark-disable",), ("--benchmark-skip",)])
def test_a_required_comparison_that_cannot_be_is_a_usage_error(project: Project, arguments: tuple[str, ...]) -> None:
    result = run(project, "latency", "--require-baseline", *arguments)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --require-baseline * measures nothing: *"])


def test_a_comparison_with_an_empty_name_is_a_usage_error(project: Project) -> None:
    result = run(project, "latency", "--benchmark-compare=")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --benchmark-compare= names no run: *"])


@pytest.mark.parametrize("mark", ["parity", "graphbreaks"])
def test_a_required_comparison_of_what_is_not_timed_is_no_pass(project: Project, mark: str) -> None:
    variant(project)
    baseline(project, KEY)
    result = run(project, mark, "--require-baseline")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["no case was timed: nothing was compared.*"])


@pytest.mark.parametrize(
    ("kept", "asked", "status"),
    [
        ((), ("--benchmark-compare", "--require-baseline"), 4),
        ((), ("--require-baseline",), 4),
        ((), ("--benchmark-compare",), 0),
        (("other/tiny/mine/b5/cuda",), ("--require-baseline",), 4),
    ],
)
def test_where_a_baseline_is_required_not_all_is_new(
    project: Project, kept: tuple[str, ...], asked: tuple[str, ...], status: int
) -> None:
    variant(project)
    baseline(project, *kept)
    result = run(project, "latency", *asked)
    assert result.ret == status
    result.stdout.fnmatch_lines(["* new", "not one case was compared: 1 accepted run in perf/baselines/* of none of *"])
    result.stdout.no_fnmatch_line("compared with *")


def test_one_case_that_is_compared_answers_for_the_new_ones(project: Project) -> None:
    record(project)
    result = project.time("--require-baseline", "--shape", "b*", "--inconclusive=pass", "--benchmark-max-time=0.2")
    result.stdout.fnmatch_lines(["* new*", "compared with 1 accepted run in perf/baselines/*"])
    assert result.ret != 4


def test_new_metrics_do_not_hide_that_all_workloads_are_others(project: Project) -> None:
    """The hand-made run is of workload `w`, and has a latency alone: this run's other metrics are new."""
    variant(project)
    baseline(project, KEY)
    result = run(project, "latency", "--benchmark-compare")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*incomparable*", "not one case was compared: 1 accepted run in *"])


def test_the_words_name_the_storage_that_was_chosen(project: Project) -> None:
    chosen = "--benchmark-storage=elsewhere"
    result = project.time(chosen, "--benchmark-compare")
    result.stdout.fnmatch_lines(["Record one: * (into elsewhere/*)"])
    assert project.time(chosen, "--benchmark-save=first").ret == 0
    project.time(chosen, "--benchmark-compare").stdout.fnmatch_lines(["compared with 1 accepted run in elsewhere/*"])
