"""Which of the collected tests run, in which order, and with which budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from perf.budgets import check_budgets
from perf.contract import Case, Skip
from perf.errors import CoregateError
from perf.measure.device import free_heap
from perf.modules import is_large
from perf.session import Session

ON_REQUEST = ("coldstart", "loading", "warmup")
PHASES = {"test_parity": 0, "test_placement": 1, "test_latency": 2, "test_coldstart": 3, "test_warmup": 4}


def concerning(run: Session, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those that there is something to say of, in this run's order."""
    return sorted((item for item in items if _concerns(run, item)), key=_rank(run))


def chosen(run: Session, items: Iterable[pytest.Item], words: Sequence[str]) -> list[pytest.Item]:
    """Those that were asked for. `words` are where the user may have asked for a mark: `-m` and the paths."""
    return [item for item in items if _asked_for(run, item, words)]


def to_run(session: pytest.Session) -> list[Case]:
    """The cases that will run, each once, in their order; those that are skipped are none. None at all where nothing is
    run, nor in xdist's workers, which do not know what falls to them."""
    option = session.config.option
    if option.collectonly or option.setuponly or option.setupplan or hasattr(session.config, "workerinput"):
        return []
    spared = ("skip", *ON_REQUEST)  # what is asked for runs in processes of its own, with caches of their own
    cases = [item for item in session.items if "case" in _given(item) and not any(map(item.get_closest_marker, spared))]
    return list(dict.fromkeys(_given(item)["case"] for item in cases))


def concerns_cases(items: Iterable[pytest.Item]) -> bool:
    return any("case" in _given(item) for item in items)


def read_budgets(run: Session, items: Iterable[pytest.Item]) -> None:
    """`@pytest.mark.perf_budget(latency_s=0.1)`, on a test that measures a case.

    Raises:
        pytest.UsageError: a metric that nothing judges, or a budget that is no share.
    """
    for item in items:
        mark = item.get_closest_marker("perf_budget")
        if mark:
            try:
                check_budgets(mark.kwargs, f"{item.nodeid}: perf_budget")
            except CoregateError as error:
                raise pytest.UsageError(str(error)) from None
            run.budgets[key_of(item)] = mark.kwargs


def beside_others(run: Session, item: pytest.Item) -> bool:
    """Whether the test may run while others compile: it counts graphs, of a preset that leaves the card room."""
    subject = _given(item).get("graph_subject") or _given(item).get("plan_subject")
    return subject is not None and not is_large(run.catalogue.cores[subject.core].presets[subject.preset])


def make_ready(run: Session, item: pytest.Item) -> None:
    """Wait for those who compile, unless the test may run beside them. A test of the user's own has all of the heap."""
    if not beside_others(run, item):
        run.settle()
    if "gate_session" not in getattr(item, "fixturenames", ()):
        free_heap()


def decline(run: Session, item: pytest.Item, reason: str) -> None:
    """Keep that what the item measures cannot be measured here; of all else of a case its parity has kept that."""
    key = key_of(item)
    if key and Case.parse(key).key not in run.unsupported:
        run.unsupported[key] = Skip(Case.parse(key), reason)


def _rank(run: Session) -> Callable[[pytest.Item], tuple[int, int]]:
    """What may run while others compile comes first. Then all of one variant in a row, parity before speed, so that it
    is built once."""
    order = {case: index for index, case in enumerate(run.cases)}

    def rank(item: pytest.Item) -> tuple[int, int]:
        case = _given(item).get("case")
        if case is None:
            return (-1, int(not beside_others(run, item)))
        return (order.get(case, len(order)), PHASES.get(getattr(item, "originalname", ""), 0))

    return rank


def _concerns(run: Session, item: pytest.Item) -> bool:
    """Neither what pytest makes of an empty parameter set (no core has a plan, say), nor the placement of a variant
    that is not ONNX Runtime's.
    """
    if not hasattr(item, "callspec"):
        return True
    if item.callspec.id.startswith("NOTSET"):
        return False
    return item.get_closest_marker("placement") is None or run.places(item.callspec.params.get("case"))


def _asked_for(run: Session, item: pytest.Item, words: Sequence[str]) -> bool:
    """What starts processes or writes whole checkpoints takes too long to come with every run."""
    if run.options.cases and "gate_session" in getattr(item, "fixturenames", ()):
        return key_of(item) in run.options.cases
    named = [mark for mark in ON_REQUEST if item.get_closest_marker(mark)]
    return not named or any(mark in word for mark in named for word in words)


def key_of(item: pytest.Item) -> str:
    """What the item measures or checks, as its row's key; empty for what is about no single case."""
    given = _given(item)
    if "load_subject" in given:
        return str(given["load_subject"].key)
    if "case" not in given:
        return ""
    kind = next((f"#{mark}" for mark in ("coldstart", "warmup") if item.get_closest_marker(mark)), "")
    return f"{given['case'].key}{kind}"


def _given(item: pytest.Item) -> dict[str, Any]:
    found: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    return found
