"""A timed case's row, end to end on the CPU: what the meters found stands beside the latency."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from perf.check.parity import Parity
from perf.contract import Case
from perf.timed import quality

if TYPE_CHECKING:
    from conftest import Project

STASHED = """
    import pytest

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(session):
        from perf.plugin import SESSION
        ledger = session.config.stash[SESSION].workbench.ledger
        print("charged:", *sorted(name for name, seconds in ledger.seconds.items() if seconds > 0))
"""


def timed(project: Project, *options: str) -> dict[str, Any]:
    """The one benchmark that a run of the toy leaves in its JSON."""
    assert project.time("--benchmark-json=run.json", *options).ret == 0
    (entry,) = json.loads((project.path / "run.json").read_text())["benchmarks"]
    found: dict[str, Any] = entry
    return found


def test_a_kept_run_knows_its_ceilings_and_each_row_its_limit(project: Project) -> None:
    """The toy's two layers, 16 to 32 to 7 wide with their biases, on five rows."""
    row = timed(project)["extra_info"]["coregate"]
    ceilings = json.loads((project.path / "run.json").read_text())["machine_info"]["coregate"]["ceilings"]
    assert set(ceilings) >= {"float32", "copy"}
    flops, moved = 2 * 5 * (16 * 32 + 32 * 7), 4 * (17 * 32 + 33 * 7 + 5 * 16 + 5 * 7)
    assert (float(row["notes"]["flops"]), float(row["notes"]["moved_bytes"])) == (flops, moved)
    limit_s = max(flops / ceilings["float32"], moved / ceilings["copy"])
    assert abs(float(row["notes"]["limit_s"]) / limit_s - 1) < 1e-5


def test_all_runs_time_the_same_inputs_and_judge_others(project: Project) -> None:
    project.core(before="open('seen', 'a').write(f'{x.flatten()[0].item()} ') if x.device.type == 'cpu' else None")
    seen = []
    for seed in ("1", "5"):
        timed(project, "--shape", "b5", f"--perf-seed={seed}")
        seen.append((project.path / "seen").read_text().split())
        (project.path / "seen").unlink()
    one, other = seen
    drawn = {
        seed: str(torch.randn(5, 16, generator=torch.Generator().manual_seed(seed))[0, 0].item()) for seed in (1, 5)
    }
    assert set(one) == {drawn[1]}  # parity too was judged on the seed that is timed
    assert set(other) == {drawn[1], drawn[5]}
    assert other[-1] == one[-1]
    first_timed = other.index(drawn[1])
    assert drawn[5] not in other[first_timed:]  # parity comes first


def test_the_row_holds_what_the_meters_found_and_how_it_was_sampled(project: Project) -> None:
    entry = timed(project, "--shape", "b5")
    row = entry["extra_info"]["coregate"]
    assert row["metrics"]["cpu_s"] > 0
    assert row["metrics"].keys() <= {"cpu_s", "host_instructions", "rss_peak_bytes"}  # no device, so no host_s either
    assert all(value > 0 for value in row["metrics"].values())
    assert f" of {entry['stats']['rounds']} samples" in row["notes"]["sampling"]
    assert row["notes"].keys() >= {"iqr_s", "parity", "seed", "warm_up"}
    assert not row["notes"].keys() & {"sm_clock", "temperature", "throttle", "foreign_processes"}


def test_a_lossy_variants_row_holds_what_it_loses(project: Project) -> None:
    """20 dB is an error of a tenth of the signal; a task of 0.75 lacks 0.25; a PSNR of 31 dB is no share."""
    case = Case("toy", "tiny", "quant", "s", "cpu")
    lossy: Any = SimpleNamespace(variants={"quant": SimpleNamespace(lossy=True)})
    exact: Any = SimpleNamespace(variants={"quant": SimpleNamespace(lossy=False)})

    def lost(task: float | None, catalogue: Any = lossy) -> dict[str, float]:
        run: Any = SimpleNamespace(checked={case.key: Parity(True, 0.1, 1.0, 20.0, task)}, catalogue=catalogue)
        return quality(run, case)

    assert lost(0.75) == {"relative_error": pytest.approx(0.1), "task_loss": 0.25}
    assert lost(None) == lost(31.0) == {"relative_error": pytest.approx(0.1)}
    assert lost(0.75, exact) == {}
    assert lost(1.0)["task_loss"] == 0.01, "a baseline of 0 could not be compared with, and 0.3 would be new"


def test_min_rounds_are_honoured(project: Project) -> None:
    assert timed(project, "--shape", "b5", "--benchmark-min-rounds=2000")["stats"]["rounds"] >= 2000


def test_with_benchmarks_off_nothing_is_measured(project: Project) -> None:
    result = project.time("--shape", "b5", "--benchmark-disable")
    result.assert_outcomes(passed=1)


def test_the_ledger_knows_what_the_time_went_into(project: Project) -> None:
    project.write("conftest.py", STASHED)
    result = project.time("--shape", "b5", "-s")
    result.stdout.fnmatch_lines(["*charged: building checking controls importing metering sampling"])
