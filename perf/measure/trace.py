"""One call on a time line, for people to look at: what the host did, and what the device."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from tempfile import TemporaryDirectory

from torch.profiler import ProfilerActivity, record_function

from perf.measure.device import synchronise
from perf.measure.kernels import LEADS, lead, session

CALL = "call"


def trace_file(folder: Path, key: str) -> Path:
    """Of the case `key`: core, preset, variant and shape are folders."""
    return folder / f"{key}.json.gz"


def keep_trace(call: Callable[[], object], device: str, path: Path) -> None:
    """Write one call, and the wait for the device, to `path` as Chrome's trace format, compressed: Perfetto and
    `chrome://tracing` open it. The call is the range named `call`; on a GPU kernels go ahead of it that only keep the
    session from losing its own (`perf.measure.kernels.cuda_trace`). The file is there when it is whole.

    Recording what the host does slows it down: no figure comes from here.

    Raises:
        OSError: the file cannot be written.
    """
    with session(ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])) as recorded:
        if device == "cuda":
            lead(LEADS[0])
        with record_function(CALL):
            call()
            synchronise(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".trace-", dir=path.parent) as folder:
        plain, packed = Path(folder) / "trace.json", Path(folder) / "trace.json.gz"
        recorded.export_chrome_trace(str(plain))
        text = plain.read_bytes() if plain.exists() else b""
        if not text.rstrip().endswith(b"}"):  # the profiler says nothing of a file that it could not write to its end
            raise OSError(ENOSPC, "the trace is cut off: is the disk full?", str(plain))
        packed.write_bytes(gzip.compress(text, compresslevel=6))
        packed.replace(path)
