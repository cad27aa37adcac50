"""Is it right? Every case's outputs against the float64 reference, by the one rule of `perf.check.parity`."""

from __future__ import annotations

import pytest

from perf.contract import Case
from perf.session import Session


@pytest.mark.parity
def test_parity(case: Case, gate_session: Session) -> None:
    found = gate_session.parity(case)
    if not found.ok:
        pytest.fail(f"{case.key}: {found.reason} (--perf-seed {gate_session.options.seed})", pytrace=False)
