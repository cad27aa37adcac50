"""What Inductor made: kernels generated, nodes before fusion, calls out to libraries; and where it had them from.

From `torch._inductor.metrics` and `torch._dynamo.utils.counters["inductor"]`. Both are kept with a compiled graph in
Inductor's cache and added again when it is taken from there, so that a warm cache counts as a cold one does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from torch._dynamo.utils import counters as dynamo_counters
from torch._inductor import metrics


@contextmanager
def counting_kernels() -> Iterator[Counter[str]]:
    """A counter that is filled when the block ends. All zeros, which are left out, where Inductor compiled nothing."""
    found: Counter[str] = Counter()
    before = _now()
    try:
        yield found
    finally:
        found.update(_now() - before)


def _now() -> Counter[str]:
    return Counter(
        inductor_kernels=metrics.generated_kernel_count,
        inductor_nodes=metrics.ir_nodes_pre_fusion,
        extern_calls=dynamo_counters["inductor"]["extern_calls"],
    )


CACHE_NOTE, COMPILED, CACHED = "compile_cache", "compiled", "from the cache"
"""The note of a row that says where it had its code from, and its words for code that was not in the cache, and was."""

STATE = {
    "fxgraph_cache_hit": CACHED,
    "fxgraph_cache_miss": COMPILED,
    "select_algorithm_autotune": "autotuned",
}
"""Counters of Inductor's that say how a compilation came about. They decide how long it took and which kernels an
autotuned one has, and are no property of the graph."""


@contextmanager
def noting_state() -> Iterator[list[str]]:
    """A list that is filled when the block ends: `1 compiled`, `2 from the cache`; empty where nothing was compiled."""
    said: list[str] = []
    before = _state()
    try:
        yield said
    finally:
        grown = _state() - before
        said += [f"{grown[name]} {words}" for name, words in STATE.items() if grown[name]]


def _state() -> Counter[str]:
    return Counter({name: dynamo_counters["inductor"][name] for name in STATE})
