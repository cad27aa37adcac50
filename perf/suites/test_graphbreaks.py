"""Is it whole? Graphs, breaks and recompiles over each core's sequence of shapes, counted with a cheap backend."""

from __future__ import annotations

import pytest

from perf.contract import GraphSubject
from perf.session import Session
from perf.wholeness import count_graphs


@pytest.mark.graphbreaks
def test_graphbreaks(graph_subject: GraphSubject, gate_session: Session) -> None:
    why_not = count_graphs(gate_session, graph_subject)
    if why_not:
        pytest.fail(f"{graph_subject.key}: {why_not}", pytrace=False)
