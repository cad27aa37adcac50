"""Memory of a device that several processes share by agreement: who wants much of it waits until there is so much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import BaseContext

PARTS = 100


class Room:
    """Handed to each of the processes when it is spawned. It keeps count; it allocates nothing."""

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
