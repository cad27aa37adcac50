"""Watches TorchDynamo at work and reports what really happened, each kind of event from the one source that was found
truthful for it on torch 2.11 and 2.14:

- graphs, skipped CUDA graphs: differences of `torch._dynamo.utils.counters`, exact in both;
- breaks: the records of Dynamo's `graph_breaks` log, see `perf.check.dynamo_log`. What Dynamo counted or gave up on and
  did not log is added, so that a log that falls silent cannot pass for a whole graph;
- recompiles, limit hits: `CompilationMetrics`, one record for each attempt to compile a function. The `recompiles`
  counter is never written, and `guard_failures` lists every cached graph that failed to match, not every recompile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
import torch._dynamo
from torch._dynamo.utils import CompilationMetrics
from torch._dynamo.utils import counters as dynamo_counters

from perf.check.dynamo_log import ADDRESS, UNKNOWN, BreakLog, Found, Places, one_line
from perf.check.graph_report import Break, GraphReport, Recompile, merged

_MANY_COMPILATIONS = 1_000_000
_COMPILE_ID = re.compile(r"^\[?[!\d]+/[\d_]+\]?: ")
_WRITTEN_AT = re.compile(r"\s+# (?P<code>.*?)\s+# \S+:\d+ in .*$")
_OBJECT_ID = re.compile(r"(___check_\w+_id\(.*?), \d+\)")


class Watch:
    """What Dynamo did since it was made. `report()` may be asked inside the `with` block and after it."""

    def __init__(self, root: Path) -> None:
        self._places = Places(root)
        self.log = BreakLog(self._places)
        self._counted = _counted()
        self._known = _compilations()
        self._final: GraphReport | None = None

    def report(self, calls: int = 0) -> GraphReport:
        """Of `calls` calls, which only the caller can have counted."""
        return replace(self._final or self._now(), calls=calls)

    def close(self) -> None:
        self._final = self._now()
        self._known = []

    def _now(self) -> GraphReport:
        new = _counted() - self._counted
        known = {id(item) for item in self._known}
        records = [item for item in _compilations() if id(item) not in known]
        limited = [item for item in records if _hit_limit(item)]
        compiled = [item for item in records if not _hit_limit(item)]
        return GraphReport(
            graphs=new["graphs"],
            breaks=merged(
                Break(item.reason, item.where, 1, item.own) for item in self._breaks(compiled, new["breaks"])
            ),
            recompiles=merged(self._recompile(item) for item in compiled if item.recompile_reason),
            limit_hits=len(limited),
            cudagraph_skips=new["cudagraph_skips"],
            calls=0,
            skip_reasons=tuple(filter(None, (getattr(item, "cudagraph_skip_reason", None) for item in records))),
        )

    def _breaks(self, compiled: Sequence[CompilationMetrics], counted: int) -> list[Found]:
        """What the log told; functions that failed and that it did not tell of; and what was merely counted."""
        failed = [item for item in compiled if item.fail_type and str(item.compile_id) not in self.log.compilations]
        silent = [Found("Dynamo counted a break that its log did not tell of", UNKNOWN, own=False)]
        return [
            *self.log.found,
            *(self._failure(item) for item in failed),
            *silent * (counted - len(self.log.found)),
        ]

    def _failure(self, record: CompilationMetrics) -> Found:
        file = record.fail_user_frame_filename or record.co_filename
        line = record.fail_user_frame_lineno or record.co_firstlineno or 0
        return self._places.blame(one_line(f"{record.fail_reason}"), [(file, line)] if file else [])

    def _recompile(self, record: CompilationMetrics) -> Recompile:
        where = self._places.name((record.co_filename or UNKNOWN, record.co_firstlineno or 0))
        return Recompile(where, one_guard(record.recompile_reason or ""), 1)


@contextmanager
def watching(root: Path) -> Iterator[Watch]:
    """Count whatever is compiled inside, by any backend. Dynamo is not reset: what was compiled before counts nothing.

    `root` is the folder whose code is the user's own. Blocks may nest; one thread at a time.
    """
    watch, kept = Watch(root), torch._dynamo.utils._compilation_metrics.maxlen
    torch._dynamo.utils.set_compilation_metrics_limit(_MANY_COMPILATIONS)
    try:
        with watch.log.listening():
            yield watch
    finally:
        watch.close()
        torch._dynamo.utils.set_compilation_metrics_limit(kept or _MANY_COMPILATIONS)


def one_guard(reason: str) -> str:
    """The guard from a recompile reason, without compilation ids, object ids, hints and stack trace."""
    guard = _COMPILE_ID.sub("", reason.partition("\nUser stack trace")[0]).strip()
    guard = _OBJECT_ID.sub(r"\1, …)", _WRITTEN_AT.sub(r"  # \g<code>", guard))
    return " ".join(ADDRESS.sub("0x…", guard).splitlines())


def _counted() -> Counter[str]:
    return Counter(
        graphs=dynamo_counters["stats"]["unique_graphs"],
        breaks=sum(dynamo_counters["graph_break"].values()),
        cudagraph_skips=dynamo_counters["inductor"]["cudagraph_skips"],
    )


def _compilations() -> list[CompilationMetrics]:
    return torch._dynamo.utils.get_compilation_metrics()


def _hit_limit(record: CompilationMetrics) -> bool:
    return "recompile limit exceeded" in (record.fail_reason or "") or record.fail_type == "FailOnRecompileLimitHit"
