"""Results that take long to build, kept by content: built by one process, whole or not at all."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perf.errors import CoregateError


def built_once(folder: Path, build: Callable[[Path], object]) -> Path:
    """`folder`, filled by `build(empty folder)` if it is not there yet.

    Processes that want the same folder wait for the one that builds it (an advisory lock, which the system drops with
    its holder). A build that fails or is killed leaves nothing at `folder`; the next one removes what it left beside.

    Raises:
        CoregateError: the folder is not there and cannot be made here.
        Exception: whatever `build` raises.
    """
    if folder.is_dir():
        return folder
    with _alone(folder):
        if not folder.is_dir():
            partial = folder.with_name(f".{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                build(partial)
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """The lock's file stays: to remove it would let two processes hold two locks of one name."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(f".{folder.name}.lock").open("w")
    except OSError as error:
        raise CoregateError(
            f"cannot write the cache {folder.parent}: {error.strerror}: make the folder writable, or remove it"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
