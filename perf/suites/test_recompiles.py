"""Does the warm-up cover what is served? After a core's serving plan has been warmed up, serving compiles nothing."""

from __future__ import annotations

import pytest

from perf.contract import GraphSubject
from perf.session import Session
from perf.wholeness import check_plan


@pytest.mark.recompiles
def test_recompiles(plan_subject: GraphSubject, gate_session: Session) -> None:
    why_not = check_plan(gate_session, plan_subject)
    if why_not:
        pytest.fail(f"{plan_subject.core}/{plan_subject.preset}: {why_not}", pytrace=False)
