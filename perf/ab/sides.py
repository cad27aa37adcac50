"""Pairs of fresh processes, one of each side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from perf.ab.interrupt import held_back

if TYPE_CHECKING:
    from perf.ab.origin import Origin
    from perf.ab.worker import Worker

MODULE = "perf.ab.side"


@dataclass
class Sides:
    """Starts pairs of processes of `origins`, base and head. `collection` is what both sides' pytest is given,
    `limit_s` how long either may take over one answer, `module` what their interpreters run. `software` is what the
    last pair said of itself."""

    origins: tuple[Origin, Origin]
    scratch: Path
    collection: Sequence[str]
    limit_s: float
    dice: Random
    module: str = MODULE
    software: list[dict[str, str]] = field(default_factory=list)

    @contextmanager
    def start(self) -> Iterator[tuple[Worker, Worker]]:
        """Both import at the same time, either first; whatever ends the context ends both."""
        workers: dict[str, Worker] = {}
        try:
            for origin in self.dice.sample(self.origins, 2):
                with held_back():
                    workers[origin.side] = self._worker(origin)
            base, head = workers["base"], workers["head"]
            self.software = [side.hello()["software"] for side in (base, head)]
            yield base, head
        finally:
            for worker in workers.values():
                worker.kill()

    def _worker(self, origin: Origin) -> Worker:
        from perf.ab.worker import Worker

        return Worker(origin, self.collection, self.scratch / origin.side, self.limit_s, self.module)
