"""A warm-up beside the request that comes: real processes on a toy, its graphs known by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from perf.warmup import Request, Warmed, as_counters, as_metrics

if TYPE_CHECKING:
    from conftest import Project

QUICK = ("-m", "warmup", "--variant", "aot_eager", "--shape", "b5", "--benchmark-json=run.json", "--confirm=0")
FIXED = ("--variant", "onnx-cpu-fp32-fixed", "-rs")


class Ran(NamedTuple):
    result: pytest.RunResult
    benchmarks: list[dict[str, Any]]


@pytest.fixture(scope="module")
def runs() -> list[Ran]:
    """The one that `ran` makes."""
    return []


@pytest.fixture
def ran(project: Project, runs: list[Ran]) -> Ran:
    """One run of a variant that serves all shapes beside one that is built for one."""
    if not runs:
        result = project.run(*QUICK, *FIXED)
        runs.append(Ran(result, json.loads((project.path / "run.json").read_text())["benchmarks"]))
    return runs[0]


def test_what_is_kept() -> None:
    found = Warmed(mismatched=Request(9.0, 0.5, 1), matched=Request(0.75, 0.625, 0))
    assert as_metrics(found) == {"mismatched_first_s": 9.0, "matched_first_s": 0.75, "matched_later_s": 0.625}
    assert as_counters(found) == {"graphs_mismatched": 1, "graphs_matched": 0}


def test_another_shapes_warm_up_leaves_the_request_a_graph_to_compile_and_its_own_none(ran: Ran) -> None:
    assert ran.result.ret == 0
    (entry,) = ran.benchmarks
    row = entry["extra_info"]["coregate"]
    assert entry["fullname"] == "toy/tiny/aot_eager/b5/cpu#warmup"
    assert row["counters"] == {"graphs_mismatched": 1, "graphs_matched": 0}
    assert row["notes"] == {"mismatched_shape": "b9"}
    assert min(row["metrics"].values()) > 0


def test_a_variant_that_is_built_for_one_shape_has_no_other_warm_up(ran: Ran) -> None:
    ran.result.assert_outcomes(passed=1, skipped=1, deselected=10)
    ran.result.stdout.fnmatch_lines(["*one shape is all that is built*"])


def test_it_runs_only_where_it_is_asked_for(project: Project) -> None:
    project.run("--variant", "eager-fp32", "--collect-only", "-q").stdout.no_fnmatch_line("*test_warmup*")


AT_ONCE = """
    import pytest
    from perf import fresh, warmup

    ONE = fresh.Start(1.0, 1.0, 1.0, 1.0, 1)


    @pytest.fixture(autouse=True)
    def at_once(monkeypatch):
        monkeypatch.setattr(fresh, "start", lambda spec: fresh.ColdStart(ONE, ONE, None))
        request = warmup.Request(1.0, 1.0, 1)
        monkeypatch.setattr(warmup, "requests", lambda spec, shape, other: warmup.Warmed(request, request))
"""


def test_it_runs_beside_a_cold_start_of_the_same_case(project: Project) -> None:
    """As they do with real processes in test_weights_option."""
    project.write("conftest.py", AT_ONCE)
    result = project.run("-m", "coldstart or warmup", "--variant", "eager-fp32", "--shape", "b5", "--confirm=0")
    assert result.parseoutcomes()["passed"] == 2
    assert result.ret == 0
