"""Writing so that a killed run leaves the old file or the new one, never half of either."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perf.errors import CoregateError


def write_atomically(path: Path, text: str) -> None:
    """Write to a temporary file in the same folder, sync it, rename it over `path`.

    Raises:
        CoregateError: the folder cannot be made or written.
    """
    with _told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
        try:
            with os.fdopen(handle, "w", encoding="utf8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def check_writable(folder: Path) -> None:
    """Find out before hours of measuring, not after; by a file of this process's own, which is gone again.

    Raises:
        CoregateError: nothing can be written in `folder`.
    """
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".writable."):
            pass


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CoregateError(f"cannot write {path}: {error.strerror}: name a folder that can be written") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time in `folder`, which is made where it is absent. The lock dies with its holder.

    Raises:
        CoregateError: the folder cannot be made or written.
    """
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / ".lock").open("w")
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
