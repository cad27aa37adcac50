"""Peak memory of a call: what PyTorch's allocator handed out, what the card holds, what the host had resident."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from perf.measure.device import PROC, status_bytes
from perf.measure.nvml import Card
from perf.measure.repeats import Repeats, at_once

LEAST_BYTES = 1 << 20
"""Below this, what the host's peak rose by is the page cache of Python's and the C library's allocators."""


def return_freed_pages() -> None:
    """glibc's `malloc_trim(3)`; other C libraries have none and keep what they freed."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@dataclass(frozen=True)
class AllocatorMeter:
    """`peak_bytes`: the most that PyTorch's CUDA allocator had handed out during a call, above what it had before."""

    wait: Callable[[], None] = torch.cuda.synchronize

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        self.wait()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        self.wait()
        return {"peak_bytes": float(torch.cuda.max_memory_allocated() - before)}


@dataclass(frozen=True)
class CardMemoryMeter:
    """`nvml_peak_bytes`: all that this process holds on the card: context, weights, and the arenas of PyTorch and of
    ONNX Runtime, which the allocator above does not see. Arenas keep what they once took until their owner is freed,
    so what is held after a call is the peak. Empty where NVML does not tell processes apart.
    """

    card: Card
    wait: Callable[[], None] = torch.cuda.synchronize

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        call()
        self.wait()
        held = self.card.state().own_bytes
        return {} if held is None else {"nvml_peak_bytes": float(held)}


@dataclass(frozen=True)
class ResidentMeter:
    """`rss_peak_bytes`: the most that was resident during a call, above what was before: it must not depend on the
    cases that ran earlier. Freed pages go back to the system first, or the call would reuse them unseen. Empty where
    the peak cannot be reset (`proc_pid_clear_refs(5)`), and below 1 MiB.

    An arena that keeps its memory between calls (ONNX Runtime's) shows nothing here; a fresh process does
    (`coldstart`).
    """

    proc: Path = PROC
    trim: Callable[[], object] = return_freed_pages
    wait: Callable[[], None] = at_once
    repeats: Repeats = field(default_factory=Repeats)

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        if not self._reset():
            return {}
        grown = self.repeats.median_of(lambda: self._growth(call))
        return {"rss_peak_bytes": float(grown)} if grown >= LEAST_BYTES else {}

    def _growth(self, call: Callable[[], object]) -> float:
        self.trim()
        self._reset()
        before = status_bytes("VmRSS", self.proc)
        call()
        self.wait()
        return status_bytes("VmHWM", self.proc) - before

    def _reset(self) -> bool:
        try:
            (self.proc / "clear_refs").write_text("5")
        except OSError:
            return False
        return True
