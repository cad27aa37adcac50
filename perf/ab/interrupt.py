"""Being stopped: whatever ends a comparison, its worktrees and its processes go first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stoppable() -> Iterator[None]:
    """A cancelled CI job gets SIGTERM, or SIGINT and then SIGTERM: the first ends us like Ctrl-C, and nothing after it
    keeps us from clearing up."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        for name in STOPS:
            signal.signal(name, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {name: signal.signal(name, interrupt) for name in STOPS}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """What stops us meanwhile stops us at the end: a process that is just being started is in nobody's hands yet."""
    came: list[int] = []
    before = {name: signal.signal(name, lambda signum, _: came.append(signum)) for name in STOPS}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
        if came:
            signal.raise_signal(came[0])
