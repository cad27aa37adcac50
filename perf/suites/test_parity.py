"""Is it right? Every case's outputs against the float64 reference, by the one rule of `perf.check.parity`."""

from __future__ import annotations

import pytest

from perf.contract import Case
from perf.errors import CrashError
from perf.session import Session


@pytest.mark.parity
def test_parity(case: Case, gate_session: Session) -> None:
    try:
        found = gate_session.parity(case)
    except CrashError as crash:
        pytest.fail(f"{case.key}: {crash}", pytrace=False)
    if not found.ok:
        pytest.fail(f"{case.key}: {found.reason} (--perf-seed {gate_session.options.seed})", pytrace=False)
