"""A file of records that only grows: each is a line of JSON, and a gzip member of its own."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from perf.errors import CoregateError


class Entry(Protocol):
    """`at` is when it was recorded (ISO 8601, UTC)."""

    @property
    def at(self) -> str: ...
    @property
    def machine_class(self) -> str: ...


Kind = TypeVar("Kind", bound=Entry)


def read_entries(path: Path, parse: Callable[[str], Kind]) -> list[Kind]:
    """All entries of one file, oldest first. `parse` makes one of a line, and raises ValueError, KeyError, TypeError or
    AttributeError where it is none.

    Raises:
        CoregateError: the file is unreadable, cut short, damaged, of another schema, or of two machine classes.
    """
    try:
        found = list(map(parse, gzip.decompress(path.read_bytes()).decode("utf8").splitlines()))
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CoregateError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore it from git, or delete it and record again"
        ) from None
    _check_one_class(path, found)
    return sorted(found, key=lambda entry: entry.at)


def _check_one_class(path: Path, found: Sequence[Entry]) -> None:
    classes = sorted({entry.machine_class for entry in found})
    if len(classes) > 1:
        raise CoregateError(f"{path} holds runs of {' and '.join(classes)}: keep one machine class a file")


def append_line(path: Path, line: str) -> None:
    """Add one record. A process that is killed meanwhile leaves the file as it was.

    Raises:
        CoregateError: the file cannot be read or written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        partial.write_bytes(before + gzip.compress(f"{line}\n".encode(), mtime=0))
        partial.replace(path)
    except OSError as error:
        raise CoregateError(f"cannot write {path}: {error.strerror}: name a folder that can be written") from error


def check_schema(found: object, schema: int) -> None:
    if found != schema:
        raise ValueError(f"schema {found}, and this coregate reads {schema}")
