"""What Inductor made: kernels generated, nodes before fusion, calls out to libraries.

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
