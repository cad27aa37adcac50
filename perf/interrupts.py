"""SIGINT while a run finishes: what it has measured is written first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """From `hold` to `release` one that comes is `seen`, and stops nothing but what is done within `heard`."""

    def __init__(self) -> None:
        self.seen = False
        self._heard = False

    def hold(self) -> None:
        """Where Python's own handler would raise; one that somebody else has set, or that ignores it, is left alone."""
        here = threading.current_thread() is threading.main_thread()
        if here and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)

    def release(self) -> None:
        if signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """KeyboardInterrupt here, as ever; at once where one came before."""
        if self.seen:
            raise KeyboardInterrupt
        self._heard = True
        try:
            yield
        finally:
            self._heard = False

    def _note(self, *_: object) -> None:
        self.seen = True
        if self._heard:
            self._heard = False
            raise KeyboardInterrupt


def give_up_unfinished(benchmarks: Iterable[Any]) -> None:
    """Those of pytest-benchmark's that were broken off have no times: it would fail as it writes them, and lose all the
    others."""
    for benchmark in benchmarks:
        if not benchmark.stats.data:
            benchmark.fixture.has_error = True
