"""What must not pass in silence, and how a run is narrowed to single cases and given budgets."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from perf.budgets import check_budgets
from perf.errors import CoregateError

if TYPE_CHECKING:
    from conftest import Project

KEY = "toy/tiny/eager-fp32/b5/cpu"
NEEDY = """
from perf.contract import Variant
from perf.runners import ModuleRunner

VARIANTS = [
    Variant(
        "needy",
        lambda plan: ModuleRunner(plan.module("float32"), "float32", plan.device),
        missing=lambda device: "needs a package: pip install it",
    )
]
"""


def test_a_missing_package_is_a_skip_and_a_failure_under_strict_catalogue(project: Project) -> None:
    project.write("more/needy.py", NEEDY)
    arguments = ("-o", "perf_variants=more", "--variant", "needy", "--variant", "eager-fp32", "-m", "parity")
    assert project.run(*arguments).ret == 0
    result = project.run(*arguments, "--strict-catalogue")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "1 case: needs a package: pip install it*",
            "--strict-catalogue: 1 case could not run for want of something: failed",
        ]
    )


@pytest.mark.parametrize("mark", ["parity", "graphbreaks"])
def test_a_core_that_lacks_its_library_is_a_skip_and_a_failure_under_strict_catalogue(
    project: Project, mark: str
) -> None:
    text = (project.path / "mycores/toy.py").read_text()
    needy = 'name="toy", missing=lambda: "package wheelwright is not installed: pip install wheelwright"'
    project.write("mycores/toy.py", text.replace('name="toy"', needy))
    arguments = ("--variant", "eager-fp32", "-m", mark)
    relaxed, strict = project.run(*arguments), project.run(*arguments, "--strict-catalogue")
    assert (relaxed.ret, strict.ret) == (0, 1)
    relaxed.assert_outcomes(skipped=1)
    strict.stdout.fnmatch_lines(
        [
            "1 case: package wheelwright is not installed: pip install wheelwright*",
            "--strict-catalogue: 1 case could not run for want of something: failed",
        ]
    )


def test_what_does_not_go_together_is_no_lack(project: Project) -> None:
    text = (project.path / "mycores/toy.py").read_text()
    project.write("mycores/toy.py", text.replace('name="toy"', 'name="toy", unsupported={"eager-bf16": "no bf16"}'))
    arguments = ("--variant", "eager-bf16", "--variant", "eager-fp32", "-m", "parity", "--strict-catalogue")
    assert project.run(*arguments).ret == 0


def test_one_case_runs_by_its_key(project: Project) -> None:
    result = project.run("--case", KEY, "-m", "latency or parity", "--benchmark-max-time=0.02")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*eager-fp32*"])


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("toy/tiny", "ERROR: --case 'toy/tiny' is not a case key: expected core/preset/variant/shape/device*"),
        ("toi/tiny/eager-fp32/b5/cpu", "ERROR: --core toi: no such name; near: toy"),
    ],
)
def test_a_key_that_is_none_is_a_usage_error(project: Project, key: str, said: str) -> None:
    result = project.run("--case", key)
    assert result.ret == 4
    result.stderr.fnmatch_lines([said])


OWN = """
import pytest
from perf.timed import time_case

@pytest.mark.latency
@pytest.mark.perf_budget({budget})
def test_latency(case, gate_session, benchmark):
    assert not time_case(gate_session, case, benchmark)
"""


def own(project: Project, budget: str, *arguments: str) -> pytest.RunResult:
    project.write("test_own.py", OWN.format(budget=budget))
    quick = ("--benchmark-max-time=0.02", "--variant", "eager-fp32", "--confirm=0")
    return project.pytester.runpytest_inprocess("test_own.py", *quick, *arguments)


def test_a_tests_own_budget_is_the_one_that_is_judged_by(project: Project) -> None:
    assert own(project, "latency_s=9", "--benchmark-save=first").ret == 0
    project.core(before="time.sleep(0.02)")
    result = own(project, "latency_s=9", "--benchmark-compare")
    result.stdout.fnmatch_lines([f"regressed: {KEY}: latency_s +*over a budget of +900%*"])


@pytest.mark.parametrize("budget", ["speed=0.1", "latency_s=-1", "latency_s='5%'", "latency_s=float('nan')"])
def test_a_budget_of_nothing_known_is_a_usage_error(project: Project, budget: str) -> None:
    result = own(project, budget)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: test_own.py::test_latency*: perf_budget(*): a share such as 0.1 is wanted, *"])


@pytest.mark.parametrize(
    "budgets",
    ["{'latency': 0.5}", "{'latency_s': '5%'}", "{'latency_s': float('nan')}", "{'cpu_s': -1}", "{'cpu_s': 15}"],
)
def test_a_cores_budget_of_nothing_known_is_a_usage_error(project: Project, budgets: str) -> None:
    text = (project.path / "mycores/toy.py").read_text()
    project.write("mycores/toy.py", text.replace("budgets=dict.fromkeys(", f"budgets={budgets} or dict.fromkeys("))
    result = project.time()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: core toy: budgets(*): a share such as 0.1 is wanted, *"])


@pytest.mark.parametrize(("budget", "right"), [(0, True), (9.9, True), (math.inf, True), (10, False), (True, False)])
def test_what_a_budget_is(budget: float, right: bool) -> None:
    with nullcontext() if right else pytest.raises(CoregateError, match=r"a share such as 0\.1 is wanted"):
        check_budgets({"latency_s": budget}, "budgets")


def test_the_report_has_the_terminals_tables(project: Project) -> None:
    result = project.time("--report", "out/report.md")
    assert result.ret == 0
    text = (project.path / "out/report.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("  eager-fp32")]
    result.stdout.fnmatch_lines([line.replace("[", "[[]")])
    assert text.startswith("# coregate: ")
    assert text.count("```") % 2 == 0


def test_a_run_in_which_nothing_can_run_says_why(project: Project) -> None:
    result = project.run("-m", "latency", "--variant", "compile-tvm")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*coregate: not run*", "1 case: package tvm is not installed: pip install apache-tvm*"]
    )


def test_a_run_that_is_about_no_case_lists_none(project: Project) -> None:
    result = project.run("-m", "graphbreaks", "--variant", "compile-tvm")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*coregate: not run*")


def test_a_failing_compiled_case_does_not_drown_in_torchs_trace(project: Project) -> None:
    project.core(between='torch._dynamo.graph_break(msg="planted")')
    result = project.run("-m", "parity", "--variant", "aot_eager")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*planted*"])
    result.stdout.fnmatch_lines(
        ["wrong: toy/tiny/aot_eager/b5/cpu: did not build: Unsupported: * — */mycores/toy.py:*"]
    )
    result.stdout.no_fnmatch_line("*torch.__trace*")
