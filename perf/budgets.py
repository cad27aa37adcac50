"""By how much metrics may grow where a core (`Core.budgets`) or a test (`perf_budget`) says so itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from perf.errors import CoregateError
from perf.judge.verdict import BUDGETS

BELOW = 10.0
"""Who writes 15 means per cent."""


def check_budgets(given: Mapping[str, object], asked: str) -> None:
    """Of what `asked` names.

    Raises:
        CoregateError: a metric that nothing judges, or a budget that is no share.
    """
    for metric, budget in given.items():
        if metric not in BUDGETS or not _is_budget(budget):
            wanted = f"a share such as 0.1 is wanted, or math.inf for none, of one of {', '.join(BUDGETS)}"
            raise CoregateError(f"{asked}({metric}={budget!r}): {wanted}")


def _is_budget(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value < BELOW or value == math.inf
