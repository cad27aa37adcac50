"""What failed once fails again with the same words, without being tried; and what it had built is let go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from traceback import clear_frames


class Failures:
    """Exceptions by key."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Exception] = {}

    def keep(self, error: Exception, *key: str) -> None:
        """What each block of this key raises, before one was tried."""
        self._kept[key] = error

    @contextmanager
    def of(self, *key: str) -> Iterator[None]:
        """What the block raises, each later block of this key raises before it begins."""
        if key in self._kept:
            raise self._kept[key]
        try:
            yield
        except Exception as error:
            let_go(error)
            self._kept[key] = error
            raise


def let_go(error: BaseException) -> None:
    """Empty the frames of `error` and of all that it was raised from or during: their variables hold whole models."""
    waiting, seen = [error], {id(error)}
    while waiting:
        one = waiting.pop()
        clear_frames(one.__traceback__)
        for behind in (one.__cause__, one.__context__):
            if behind is not None and id(behind) not in seen:
                seen.add(id(behind))
                waiting.append(behind)
