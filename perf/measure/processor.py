"""Whether this process had a processor when it wanted one: where others had it, its time is theirs as well."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time, sleep

from perf.disturbance import WAITED

PROC = Path("/proc")

LOOK_S = 0.2


@dataclass(frozen=True)
class Used:
    """Seconds until now: `at` on the wall, `own` processor time of this process, what its threads `waited` for a
    processor, and what the processors that it may use were `busy` with, all processes together."""

    at: float
    own: float
    waited: float
    busy: float


def used(proc: Path = PROC) -> Used | None:
    """From the kernel's run queues (`/proc/self/task/*/schedstat`; a thread that sleeps waits for nothing) and
    `/proc/stat`; see proc(5). None where it does not tell.
    """
    try:
        waited = sum(_waited(task) for task in (proc / "self" / "task").iterdir())
        lines = [line.split() for line in (proc / "stat").read_text().splitlines()]
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks = [_busy(fields) for fields in lines if fields and fields[0] in mine]
    except (OSError, AttributeError, ValueError, IndexError):
        return None
    busy = sum(ticks) / os.sysconf("SC_CLK_TCK")
    return Used(perf_counter(), process_time(), waited * 1e-9, busy) if ticks else None


def _waited(task: Path) -> int:
    try:
        return int((task / "schedstat").read_text().split()[1])
    except ProcessLookupError:  # the thread has ended since it was listed
        return 0


def _busy(fields: list[str]) -> int:
    """Of one processor's line: all but idle, waiting for disks, and what the hypervisor took."""
    user, nice, system, _, _, irq, softirq = map(int, fields[1:8])
    return user + nice + system + irq + softirq


@dataclass
class ProcessorWatch:
    """Watches from its making on."""

    read: Callable[[], Used | None] = used
    _begun: Used | None = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self.read()

    def share(self) -> float | None:
        """How much of the time since then this process waited while others ran; of all its threads' time, where several
        ran at once. That it has more threads than there are processors is its own affair. None where it cannot be told.
        """
        now, begun = self.read(), self._begun
        if begun is None or now is None:
            return None
        own, waited = now.own - begun.own, max(0.0, now.waited - begun.waited)
        others = max(0.0, now.busy - begun.busy - own)
        lost = min(waited, others)
        return lost / max(now.at - begun.at, own + lost)

    def notes(self) -> dict[str, str]:
        """What a row says of it: `{"waited_for_others": "0.12"}`."""
        share = self.share()
        return {} if share is None else {WAITED: f"{share:.2f}"}


@contextmanager
def around(look: Callable[[], dict[str, str]] | None = None) -> Iterator[dict[str, str]]:
    """For what runs in processes of its own, whose waiting is not seen from here: notes, written when it has ended, of
    how busy others were before or after it, whichever is more."""
    found: dict[str, str] = {}
    before = (look or others_busy)()
    yield found
    after = (look or others_busy)()
    busier = max([before, after], key=_said)
    found.update(busier)


def _said(notes: Mapping[str, str]) -> float:
    return float(notes.get(WAITED, 0))


def others_busy(read: Callable[[], Used | None] = used, pause: Callable[[float], object] = sleep) -> dict[str, str]:
    """The share of the processors that others have, looked at for a fifth of a second."""
    begun = read()
    pause(LOOK_S)
    now = read()
    if begun is None or now is None:
        return {}
    others = max(0.0, now.busy - begun.busy - (now.own - begun.own))
    return {WAITED: f"{others / (len(os.sched_getaffinity(0)) * (now.at - begun.at)):.2f}"}
