"""Does a warm-up help the request that comes? The request's first call after another shape's warm-up and its own."""

from __future__ import annotations

from typing import Any

import pytest

from perf.contract import Case
from perf.session import Session
from perf.timed import request_after_warmup


@pytest.mark.warmup
def test_warmup(case: Case, gate_session: Session, benchmark: Any) -> None:
    why_not = request_after_warmup(gate_session, case, benchmark)
    if why_not:
        pytest.fail(f"{case.key}: not requested, {why_not}", pytrace=False)
