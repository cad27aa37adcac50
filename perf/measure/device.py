"""Devices: waiting for them, and freeing what a closed variant left there."""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch


def available_device() -> str:
    """`cuda` where there is one, else `cpu`: what is measured when nobody says."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def on_card() -> bool:
    """Whether this process has a context on a GPU: others see it there, at work or not."""
    return bool(torch.cuda.is_initialized())


def synchronise(device: str) -> None:
    """Wait until all queued work on `device` is done; a CPU never queues."""
    if device == "cuda":
        torch.cuda.synchronize()


def cold_cache(device: str) -> Callable[[], None]:
    """What empties the GPU's L2 cache, done when it returns: a buffer of twice its size is overwritten. Without that, a
    call that fits in finds what the call before left, which no server's does. A CPU's caches are left alone.
    """
    if device != "cuda":
        return lambda: None
    size = 2 * torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    buffer = torch.empty(size, dtype=torch.uint8, device=device)

    def overwrite() -> None:
        buffer.zero_()
        torch.cuda.synchronize()

    return overwrite


def memory_bytes(device: str) -> int:
    """All that the device has, used or not; of a CPU the host's."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def release(device: str) -> None:
    """Give back what nothing refers to any more."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def settle_heap() -> None:
    """Collect all garbage, and keep what is left out of later collections until this is called again. Imported
    libraries are half a million objects, and looking through them took 0.2 to 0.5 s on a 2-core EPYC, several times a
    case: a third of a run over small presets.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def free_heap() -> None:
    """The end of that: whatever is garbage can be collected."""
    gc.unfreeze()


PROC = Path("/proc/self")


def status_bytes(field: str, proc: Path = PROC) -> int:
    """A field of Linux's `/proc/self/status` (proc_pid_status(5)), such as VmRSS and VmHWM; 0 where it is absent."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", (proc / "status").read_text(), flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def peak_rss_bytes() -> int:
    """The most memory this process has held resident. Linux also knows `ru_maxrss`, but there a process that another
    started has in it what that one held just then."""
    if PROC.exists():
        return status_bytes("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
