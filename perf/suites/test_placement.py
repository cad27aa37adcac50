"""Is it where it was asked to be? Which node of each ONNX Runtime case ran on which provider, and copies between."""

from __future__ import annotations

import pytest

from perf.contract import Case
from perf.session import Session


@pytest.mark.placement
def test_placement(case: Case, gate_session: Session) -> None:
    why_not = gate_session.place(case)
    if why_not:
        pytest.fail(f"{case.key}: {why_not}", pytrace=False)
