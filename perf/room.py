"""What processes that compile share: memory of the device, by agreement, and a list of who is at what."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from pathlib import Path

PARTS = 100


class Room:
    """Handed to each of the processes when it is spawned: who wants much memory waits until there is so much. It keeps
    count; it allocates nothing."""

    def __init__(self, context: BaseContext) -> None:
        self._turn = context.Lock()
        self._free = context.Semaphore(PARTS)

    @contextmanager
    def taken(self, share: float) -> Iterator[None]:
        """Hold `share` of it, all of it where that is more than 1. Who came first is served first, so that what needs
        all is not passed by for ever."""
        parts = min(PARTS, math.ceil(PARTS * share))
        with self._turn:
            for _ in range(parts):
                self._free.acquire()
        try:
            yield
        finally:
            for _ in range(parts):
                self._free.release()


@dataclass(frozen=True)
class Whereabouts:
    """The last case that each process has begun, in a file in `folder` each: it outlives who wrote it."""

    folder: Path

    def begin(self, key: str) -> None:
        """Raises OSError where it cannot be written."""
        (self.folder / str(os.getpid())).write_text(key)

    def of(self, process: int | None) -> str:
        """Its case's key; empty where it has begun none, or ended while it wrote it."""
        file = self.folder / str(process)
        return file.read_text() if file.exists() else ""
