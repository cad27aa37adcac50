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

    The sizes of its files are kept beside it: a folder in which one is gone or cut short since is built again.

    Processes that want the same folder wait for the one that builds it (an advisory lock, which the system drops with
    its holder). A build that fails or is killed leaves nothing at `folder`; the next one removes what it left beside.

    Raises:
        CoregateError: the folder is not there and cannot be made here.
        Exception: whatever `build` raises.
    """
    if _is_whole(folder):
        return folder
    with _alone(folder):
        if not _is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            partial = folder.with_name(f".{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                build(partial)
                _sizes_file(folder).write_text(_sizes(partial))
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return folder


def _is_whole(folder: Path) -> bool:
    """A folder without sizes beside it is believed: it may be on a medium that only a builder can write."""
    if not folder.is_dir():
        return False
    noted = _sizes_file(folder)
    return not noted.exists() or noted.read_text() == _sizes(folder)


def _sizes(folder: Path) -> str:
    """A line a file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(f"{path.stat().st_size} {path.relative_to(folder)}\n" for path in files)


def _sizes_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.sizes")


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
