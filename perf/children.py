"""Processes that a run starts and waits for. None outlives it, however it ends: they hold the device.

A run that is killed can end nothing. So a command runs below a process of its own, `python children.py SCRATCH
COMMAND…`, whose standard input is a pipe from the run: when that closes before the command has ended, the command is
killed, with what it has started, and the folder SCRATCH is removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO

TIDYING_S = 5.0


def run(
    command: Sequence[str], scratch: Path, folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Wait for `command`, started in `folder` with `variables` beside this process's own. Who breaks off ends what it
    has started as well. `scratch` is a folder of the caller's, removed here only where the caller is killed, or breaks
    off what does not end by itself."""
    pipe, (read, write) = subprocess.PIPE, os.pipe()
    with os.fdopen(write, "wb", buffering=0) as line:
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(scratch), *command],
                cwd=folder,
                env={**os.environ, **(variables or {})},
                stdin=read,
                stdout=pipe,
                stderr=pipe,
                text=True,
                errors="replace",
                start_new_session=True,  # who interrupts this process interrupts that one through it
            )
        finally:
            os.close(read)
        try:
            said = child.communicate()
        except BaseException:
            _end(child, line)
            raise
    return subprocess.CompletedProcess(command, child.returncode, *said)


def _end(child: subprocess.Popen[str], line: BinaryIO) -> None:
    """It may tidy up, for a moment."""
    with suppress(BrokenPipeError):
        line.write(b"\n")
    with suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=TIDYING_S)
    line.close()
    child.wait()


def failure(child: subprocess.CompletedProcess[str]) -> str:
    """Why a process failed: the signal that killed it, or the last line that it wrote."""
    lines = [line.strip() for line in child.stderr.splitlines() if line.strip()]
    if child.returncode >= 0:
        return lines[-1] if lines else f"the process ended with {child.returncode}"
    last = f"; its last line: {lines[-1]}" if lines else ""
    return f"{killed_by(-child.returncode)}{last}"


def killed_by(number: int) -> str:
    """Of a signal, in words."""
    try:
        name = signal.Signals(number).name
    except ValueError:  # one without a name
        name = f"signal {number}"
    memory = " (by the kernel, where memory ran out: dmesg says so)" if number == signal.SIGKILL else ""
    return f"killed by {name}{memory}"


def main(scratch: str, *command: str) -> None:
    """The process between: ends as the command does."""
    child, orphaned = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0), Event()
    Thread(target=_listen, args=(child.pid, orphaned), daemon=True).start()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # as long as it is not reaped, its group is its own
    _send(child.pid, signal.SIGKILL)
    code = child.wait()
    if orphaned.is_set():
        shutil.rmtree(scratch, ignore_errors=True)
    if code < 0:
        _die_of(-code)
    os._exit(code)


def _listen(group: int, orphaned: Event) -> None:
    """A byte interrupts the command; the end of the pipe kills it."""
    while os.read(0, 1):
        _send(group, signal.SIGINT)
    orphaned.set()
    _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _die_of(number: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # of what nobody can handle
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(*sys.argv[1:])
