"""One call on a time line, for people to look at: what the host did, and what the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch.profiler import ProfilerActivity, record_function

from perf.measure.device import synchronise
from perf.measure.kernels import LEADS, lead, session

CALL = "call"


def trace_file(folder: Path, key: str) -> Path:
    """Of the case `key`, whose slashes would be folders."""
    return folder / f"{key.replace('/', '_')}.json.gz"


def keep_trace(call: Callable[[], object], device: str, path: Path) -> None:
    """Write one call, and the wait for the device, to `path` as Chrome's trace format, compressed: Perfetto and
    `chrome://tracing` open it. The call is the range named `call`; on a GPU kernels go ahead of it that only keep the
    session from losing its own (`perf.measure.kernels.cuda_trace`).

    Recording what the host does slows it down: no figure comes from here.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with session(ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])) as recorded:
        if device == "cuda":
            lead(LEADS[0])
        with record_function(CALL):
            call()
            synchronise(device)
    recorded.export_chrome_trace(str(path))
