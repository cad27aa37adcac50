"""Eager PyTorch's own kernels in a CUDA graph: nothing compiled, one launch a call, no guard and no copy before it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from perf.contract import Blueprint, Variant
from perf.errors import UnsupportedError, first_line
from perf.needs import all_of, cuda_only, device_present
from perf.runners import ModuleRunner

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
WARM_UP = 3
"""Calls before the one that is captured, in which libraries choose kernels and take memory; as torch advises."""

Capture = Callable[[Callable[[], Any]], tuple[Any, Callable[[], None]]]
"""A call → what it returns, from then on rewritten in place, and what does its work again."""


def capture(call: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
    """On the current device, by a graph of its own. RuntimeError for a call that waits for the device, or does anything
    else that a graph cannot hold: the current stream and the allocator are then as they were, which `torch.cuda.graph`
    does not see to (pytorch/pytorch#180395).
    """
    graph, pool, aside = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle(), torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(WARM_UP):
            call()
        torch.cuda.synchronize()
        graph.capture_begin(pool)
        try:
            returned = call()
            graph.capture_end()
        except BaseException:
            _give_up(graph, pool)
            raise
    torch.cuda.current_stream().wait_stream(aside)
    return returned, graph.replay


def _give_up(graph: torch.cuda.CUDAGraph, pool: Any) -> None:
    """Up to torch 2.11 a capture that ends in an error leaves the allocator believing that it goes on."""
    with suppress(RuntimeError):
        graph.capture_end()
    with suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)


@dataclass(frozen=True)
class Captured:
    """`inputs` are kept, since the graph reads where they lie."""

    inputs: dict[str, Any]
    returned: Any
    replay: Callable[[], None]


class GraphedRunner(ModuleRunner):
    """Each prepared set of inputs is captured at its first call, and read in its place from then on: what changes
    between two calls is written there. A call's outputs are where the last call's were.

    Raises:
        UnsupportedError: the core is impure; or, on the first call, it cannot be captured.
    """

    def __init__(self, blueprint: Blueprint, dtype: str, capture: Capture = capture) -> None:
        if blueprint.core.impure:
            raise UnsupportedError(f"not captured: {blueprint.core.impure}")
        super().__init__(blueprint.module(dtype), dtype, blueprint.device)
        self._capture = capture
        self._captured: dict[int, Captured] = {}

    def run(self, prepared: dict[str, Any]) -> Any:
        if id(prepared) not in self._captured:
            self._captured[id(prepared)] = self._of(prepared)
        found = self._captured[id(prepared)]
        found.replay()
        return found.returned

    def _of(self, prepared: dict[str, Any]) -> Captured:
        try:
            return Captured(prepared, *self._capture(partial(super().run, prepared)))
        except RuntimeError as error:
            if "captur" not in str(error):
                raise
            raise UnsupportedError(f"no CUDA graph can hold this core: {first_line(error)}") from error

    def close(self) -> None:
        self._captured.clear()
        super().close()


VARIANTS = [
    Variant(
        f"graphed-eager-{short}",
        partial(GraphedRunner, dtype=dtype),
        dtype,
        missing=all_of(cuda_only, device_present),
        standard_on=(),
        options={"cuda_graph": True},
    )
    for short, dtype in DTYPES.items()
]
