"""Is it fast? What a caller waits for one call, sampled by pytest-benchmark; a variant that is not right is
not timed."""

from __future__ import annotations

from typing import Any

import pytest

from perf.contract import Case
from perf.session import Session
from perf.timed import time_case


@pytest.mark.latency
def test_latency(case: Case, gate_session: Session, benchmark: Any) -> None:
    why_not = time_case(gate_session, case, benchmark)
    if why_not:
        pytest.fail(f"{case.key}: not timed, {why_not}", pytrace=False)
