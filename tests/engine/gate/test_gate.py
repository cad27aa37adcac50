"""Whole runs in a project of their own: what the gate says and how it exits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from perf.errors import CoregateError
from perf.store.baselines import accept
from tests.engine.gate_toys import baseline_files, edit, record

if TYPE_CHECKING:
    from conftest import Project

SLOW = "time.sleep(0.02)"
KEY = "toy/tiny/eager-fp32/b5/cpu"


def test_a_saved_run_is_pytest_benchmarks_json_under_its_machine_class(project: Project) -> None:
    assert project.time("--benchmark-save=first").ret == 0
    (path,) = baseline_files(project)
    document = json.loads(path.read_text())
    assert path.name == "0001_first.json"
    assert path.parent.name == document["machine_info"]["coregate"]["class"]
    assert [entry["fullname"] for entry in document["benchmarks"]] == [KEY]
    assert document["benchmarks"][0]["stats"]["median"] > 0


def test_autosaved_runs_stay_outside_the_baselines(project: Project) -> None:
    assert project.time("--benchmark-autosave").ret == 0
    assert not baseline_files(project)
    assert len(list((project.path / ".benchmarks").glob("*/0001_*.json"))) == 1


def test_a_slowed_core_is_regressed_and_fails(project: Project) -> None:
    record(project)
    project.core(before=SLOW)
    result = project.time("--benchmark-compare")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*eager-fp32*regressed*", "*1 regressed", f"regressed: {KEY}: latency_s +*over a budget of +5%*"]
    )


def test_a_time_taken_beside_others_is_no_change_and_no_baseline(project: Project) -> None:
    record(project)
    project.core(before=SLOW)
    project.write("alone.py", (project.path / "alone.py").read_text().replace("SHARE = None", "SHARE = 0.3"))
    result = project.time("--benchmark-compare", "--benchmark-autosave")
    assert result.ret == 6
    why = "disturbed: others had the processor for 30% of the time"
    result.stdout.fnmatch_lines([f"inconclusive: {KEY}: latency_s*{why}*"])
    (run,) = (project.path / ".benchmarks").glob("*/0001_*.json")
    with pytest.raises(CoregateError, match=r"disturbed: .*others had the processor"):
        accept([run], project.path / "perf" / "baselines", "a reason")


def test_a_workload_is_what_is_timed_whatever_parity_was_judged_on(project: Project) -> None:
    text = (project.path / "mycores" / "toy.py").read_text()
    project.write("mycores/toy.py", text.replace('torch.randn(shape["batch"]', 'torch.randn(shape["batch"] + seed % 7'))
    assert project.time("--benchmark-save=first", "--perf-seed=11").ret == 0
    result = project.time("--benchmark-compare", "--perf-seed=15", "--inconclusive=pass")
    assert "incomparable" not in result.stdout.str()
    result.stdout.fnmatch_lines(["*compared with 1 accepted run*"])


def test_a_faster_core_is_improved_and_passes(project: Project) -> None:
    edit(record(project), latency_s=10.0)
    result = project.time("--benchmark-compare")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*eager-fp32*improved*", "*1 improved"])


def test_a_renamed_core_is_missing_and_fails(project: Project) -> None:
    record(project)
    project.core(name="renamed")
    result = project.time("--benchmark-compare")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["* new, 1 missing", f"missing: {KEY}: no longer in the catalogue*"])


def test_a_case_that_was_not_asked_for_is_not_missing(project: Project) -> None:
    path = record(project)
    edit(path, latency_s=10.0)
    result = project.time("--benchmark-compare", "--shape", "b9")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["* new"])
    result.stdout.no_fnmatch_line("*missing:*")


def test_pytest_benchmark_compares_with_each_cases_newest_run(project: Project) -> None:
    """Also where the newest run is of other cases."""
    edit(record(project), latency_s=1e-9)
    first, *_ = baseline_files(project)
    document = json.loads(first.read_text())
    document["benchmarks"][0]["stats"]["mean"] = 1e-9
    first.write_text(json.dumps(document))
    document["benchmarks"][0]["fullname"] += "#coldstart"
    first.with_name("0002_cold.json").write_text(json.dumps(document | {"datetime": "2099-01-01T00:00:00+00:00"}))
    result = project.time("--benchmark-compare", "--benchmark-compare-fail=mean:5%")
    assert "Performance has regressed" in "\n".join([*result.outlines, *result.errlines])


def test_another_machine_class_has_no_baseline(project: Project) -> None:
    path = record(project)
    path.parent.rename(path.parent.with_name("another-cpu-64c"))
    result = project.time("--benchmark-compare")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "no baseline for machine class *: nothing was compared.",
            "Record one: the same command with --benchmark-save=NAME*",
        ]
    )


def test_require_baseline_fails_where_there_is_none(project: Project) -> None:
    result = project.time("--benchmark-compare", "--require-baseline")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["no baseline for machine class *"])


def test_a_variant_that_is_wrong_is_not_timed(project: Project) -> None:
    project.write(
        "more/wrong.py",
        """
        from perf.contract import Variant
        from perf.runners import ModuleRunner

        class Wrong(ModuleRunner):
            def run(self, prepared):
                return super().run(prepared) * 1.001

        VARIANTS = [Variant("wrong", lambda plan: Wrong(plan.module("float32"), "float32", plan.device))]
        """,
    )
    result = project.run("-o", "perf_variants=more", "--variant", "wrong", "-m", "parity or latency")
    result.assert_outcomes(failed=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*not timed, not at parity: y: RMSE * over the limit *", "*wrong *fails*wrong"])


def test_a_wrong_variant_names_the_first_departing_layer(project: Project) -> None:
    project.write(
        "more/wrong.py",
        """
        from perf.contract import Variant
        from perf.runners import ModuleRunner

        def build(plan):
            module = plan.module("float32")
            module.second.weight.mul_(1.01)
            return ModuleRunner(module, "float32", plan.device)

        VARIANTS = [Variant("wrong", build)]
        """,
    )
    result = project.run("-o", "perf_variants=more", "--variant", "wrong", "-m", "parity")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*y: RMSE * over the limit *; first departing layer: second*"])


def test_a_graph_break_is_reported_with_its_line(project: Project) -> None:
    project.core(between='print("here")')
    line = project.path.joinpath("mycores/toy.py").read_text().splitlines().index('        print("here")') + 1
    result = project.run("-m", "graphbreaks", "--graph-report", "graphs.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*mycores/toy.py:{line}*"])
    report = json.loads(project.path.joinpath("graphs.json").read_text())
    assert f"mycores/toy.py:{line}" in json.dumps(report)


def test_the_graph_table_is_printed_when_everything_passes(project: Project) -> None:
    result = project.run("-m", "graphbreaks", "--matrix", "covering")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*coregate: graphs*", "*toy/tiny/cpu/dynamic=True*"])


def test_a_case_that_lost_its_dependency_is_missing(project: Project) -> None:
    edit(record(project), key="toy/tiny/inductor-reduce_overhead/b5/cpu")
    result = project.pytester.runpytest_inprocess(
        "--pyargs",
        "perf.suites.test_latency",
        "--benchmark-max-time=0.02",
        "--benchmark-compare",
        "--variant",
        "eager-fp32",
        "--variant",
        "inductor-reduce_overhead",
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["missing: toy/tiny/inductor-reduce_overhead/b5/cpu: cannot run here: CUDA graphs need *"]
    )


def test_benchmarks_of_the_projects_own_keep_pytest_benchmarks_table(project: Project) -> None:
    project.write("test_own.py", "def test_own(benchmark):\n    benchmark(sum, [1, 2])\n")
    result = project.pytester.runpytest_inprocess("test_own.py", "--benchmark-max-time=0.01")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*benchmark: 1 tests*", "test_own *"])


def test_without_cores_the_plugin_does_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_own(benchmark):\n    benchmark(sum, [1, 2])\n")
    result = pytester.runpytest_inprocess("--benchmark-max-time=0.01", "--benchmark-compare")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*coregate:*")
