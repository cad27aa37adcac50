"""How soon does it start? Fresh processes: with empty caches, with filled ones, with compile artefacts."""

from __future__ import annotations

from typing import Any

import pytest

from perf.contract import Case
from perf.session import Session
from perf.timed import start_cold


@pytest.mark.coldstart
def test_coldstart(case: Case, gate_session: Session, benchmark: Any) -> None:
    why_not = start_cold(gate_session, case, benchmark)
    if why_not:
        pytest.fail(f"{case.key}: not started, {why_not}", pytrace=False)
