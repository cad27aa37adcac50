"""Does a warm-up help the request that comes? Its first call after another shape's, and after its own, in processes of
their own with empty caches.

Run as `python -m perf.warmup SPEC.json RESULT.json`: builds, calls at the shapes of `warm_with`, times the request.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from perf.fresh import Spec, told_by, workbench

WARM_CALLS = 2
"""A CUDA graph is recorded in the second."""


@dataclass(frozen=True)
class Warming(Spec):
    """`warm_with` are names of the preset's shapes, run in this order before the request, which is the case's own."""

    warm_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """The first call at the request's shape and the one after, in seconds, and the graphs that Dynamo made for it."""

    first_s: float
    later_s: float
    graphs: int


@dataclass(frozen=True)
class Warmed:
    """The same request after a warm-up at another shape, and after one at its own."""

    mismatched: Request
    matched: Request


def requests(spec: Spec, shape: str, other: str) -> Warmed:
    """Two fresh processes, one after the other.

    Raises:
        ChildError: one of them failed.
    """
    return Warmed(_request(spec, other), _request(spec, shape))


def as_metrics(found: Warmed) -> Mapping[str, float]:
    return {
        "mismatched_first_s": found.mismatched.first_s,
        "matched_first_s": found.matched.first_s,
        "matched_later_s": found.matched.later_s,
    }


def as_counters(found: Warmed) -> Mapping[str, int]:
    return {"graphs_mismatched": found.mismatched.graphs, "graphs_matched": found.matched.graphs}


def _request(spec: Spec, warm_with: str) -> Request:
    with tempfile.TemporaryDirectory(prefix="coregate-warm-") as folder:
        warming = Warming(**asdict(spec), warm_with=(warm_with,))
        return Request(**told_by("perf.warmup", warming, Path(folder), "caches"))


def main(asked: str, told: str) -> None:
    """The child's side."""
    fields: dict[str, Any] = json.loads(Path(asked).read_text())
    Path(told).write_text(json.dumps(asdict(_measured(Warming(**fields)))))


def _measured(spec: Warming) -> Request:
    from perf.check.graphs import watching
    from perf.contract import Case
    from perf.measure.device import synchronise

    bench, case = workbench(spec), Case.parse(spec.key)

    def call(called: Case) -> float:
        prepared = bench.prepared(called)
        synchronise(called.device)
        begun = perf_counter()
        bench.built(called).runner.run(prepared)
        synchronise(called.device)
        return perf_counter() - begun

    for name in spec.warm_with * WARM_CALLS:
        call(replace(case, shape=name))
    with watching(Path(spec.root)) as seen:
        first_s = call(case)
    return Request(first_s, call(case), int(seen.report().counters()["graphs"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
