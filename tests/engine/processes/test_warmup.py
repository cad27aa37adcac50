"""A warm-up beside the request that comes: real processes on a toy, its graphs known by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perf.warmup import Request, Warmed, as_counters, as_metrics

if TYPE_CHECKING:
    from conftest import Project

QUICK = ("-m", "warmup", "--variant", "aot_eager", "--shape", "b5", "--benchmark-json=run.json", "--confirm=0")


def test_what_is_kept() -> None:
    found = Warmed(mismatched=Request(9.0, 0.5, 1), matched=Request(0.75, 0.625, 0))
    assert as_metrics(found) == {"mismatched_first_s": 9.0, "matched_first_s": 0.75, "matched_later_s": 0.625}
    assert as_counters(found) == {"graphs_mismatched": 1, "graphs_matched": 0}


def test_another_shapes_warm_up_leaves_the_request_a_graph_to_compile_and_its_own_none(project: Project) -> None:
    assert project.run(*QUICK).ret == 0
    (entry,) = json.loads((project.path / "run.json").read_text())["benchmarks"]
    row = entry["extra_info"]["coregate"]
    assert entry["fullname"] == "toy/tiny/aot_eager/b5/cpu#warmup"
    assert row["counters"] == {"graphs_mismatched": 1, "graphs_matched": 0}
    assert row["notes"] == {"mismatched_shape": "b9"}
    assert min(row["metrics"].values()) > 0


def test_a_variant_that_is_built_for_one_shape_has_no_other_warm_up(project: Project) -> None:
    result = project.run(*QUICK, "--variant", "onnx-cpu-fp32-fixed", "-rs")
    result.assert_outcomes(passed=1, skipped=1, deselected=10)
    result.stdout.fnmatch_lines(["*one shape is all that is built*"])


def test_it_runs_only_where_it_is_asked_for(project: Project) -> None:
    project.run("--variant", "eager-fp32", "--collect-only", "-q").stdout.no_fnmatch_line("*test_warmup*")


def test_it_runs_beside_a_cold_start_of_the_same_case(project: Project) -> None:
    result = project.run("-m", "coldstart or warmup", "--variant", "eager-fp32", "--shape", "b5", "--confirm=0")
    assert result.parseoutcomes()["passed"] == 2
    assert result.ret == 0
