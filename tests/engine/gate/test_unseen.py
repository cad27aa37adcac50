"""A time that the accepted runs have and this run did not measure, as the user sees it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.engine.gate_toys import record

if TYPE_CHECKING:
    from conftest import Project


def test_kernel_time_that_is_gone_is_told_and_is_no_pass(project: Project) -> None:
    path = record(project)
    run = json.loads(path.read_text())
    run["benchmarks"][0]["extra_info"]["coregate"]["metrics"]["device_s"] = 0.001
    run["benchmarks"][0]["stats"]["median"] = 1e9  # whatever latency says: it is faster
    path.write_text(json.dumps(run))
    result = project.time("--benchmark-compare")
    assert result.ret == 6
    told = "the accepted runs have it, and it was not measured this time"
    result.stdout.fnmatch_lines([f"inconclusive: toy/tiny/eager-fp32/b5/cpu: device_s*{told}*"])
