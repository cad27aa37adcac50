"""What counting found, as frozen data. Needs no torch, so that tables can be made of it without."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar


@dataclass(frozen=True)
class Break:
    """Dynamo broke off here `count` times: once for each function, and each version of it, that it then compiled in
    parts or left to eager. One `print` in a block that two functions enclose breaks all three, and counts 3.

    `where` is `path:line` of the innermost user frame, relative to the root; where no user frame is on the stack, the
    library's. `own`: the line that broke is the user's, not a library's (which `reason` then names).
    """

    reason: str
    where: str
    count: int
    own: bool


@dataclass(frozen=True)
class Recompile:
    """The function at `where` (its first line; after a break, the line it resumes after) was compiled again `count`
    times because `guard` failed: the guard of the graph used last, with the line of code that asked for it.
    """

    where: str
    guard: str
    count: int


@dataclass(frozen=True)
class GraphReport:
    """What `calls` calls led to. No graph at all means that all of it ran eagerly, which no break need announce.

    `limit_hits`: functions that were compiled so often that torch runs them eagerly from then on, without a word.
    """

    graphs: int
    breaks: tuple[Break, ...]
    recompiles: tuple[Recompile, ...]
    limit_hits: int
    cudagraph_skips: int
    calls: int
    skip_reasons: tuple[str, ...] = ()
    """Why CUDA graphs were skipped, where torch says so (from 2.11 on, by its compilation metrics)."""

    def counters(self) -> Mapping[str, int]:
        return {
            "graphs": self.graphs,
            "graph_breaks": sum(item.count for item in self.breaks),
            "recompiles": sum(item.count for item in self.recompiles),
            "recompile_limit_hits": self.limit_hits,
            "cudagraph_skips": self.cudagraph_skips,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "counters": dict(self.counters()),
            "calls": self.calls,
            "breaks": [asdict(item) for item in self.breaks],
            "recompiles": [asdict(item) for item in self.recompiles],
            "cudagraph_skip_reasons": list(self.skip_reasons),
        }

    def places(self) -> tuple[str, ...]:
        """A line for each break and recompile, for a difference by place."""
        return (
            *(f"break: {item.reason} — {item.where} ×{item.count}" for item in self.breaks),
            *(f"recompile: {item.guard} — {item.where} ×{item.count}" for item in self.recompiles),
            *(f"CUDA graph skipped: {reason}" for reason in self.skip_reasons),
        )

    def __add__(self, other: GraphReport) -> GraphReport:
        """Both, one after the other; the same break or guard at the same place is counted together."""
        return GraphReport(
            graphs=self.graphs + other.graphs,
            breaks=merged(self.breaks + other.breaks),
            recompiles=merged(self.recompiles + other.recompiles),
            limit_hits=self.limit_hits + other.limit_hits,
            cudagraph_skips=self.cudagraph_skips + other.cudagraph_skips,
            calls=self.calls + other.calls,
            skip_reasons=self.skip_reasons + other.skip_reasons,
        )


Item = TypeVar("Item", Break, Recompile)


def merged(items: Iterable[Item]) -> tuple[Item, ...]:
    """One of each, in the order they were first met, with their counts added."""
    total: dict[Hashable, Item] = {}
    for item in items:
        key = replace(item, count=0)
        total[key] = replace(item, count=item.count + total[key].count) if key in total else item
    return tuple(total.values())
