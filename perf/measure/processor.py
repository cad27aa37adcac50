"""Whether this process had a processor when it wanted one: where others had it, its time is theirs as well."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")

LIMIT = 0.05
"""Share of the time in which it could have run that a process may wait for others, and still time itself alone. On two
cores it is 0.01 with nothing beside, and 0.3 with one busy process."""

NOTE = "waited_for_others"


@dataclass(frozen=True)
class Used:
    """Seconds of processor time until now: what this process's threads `ran`, what they `waited` for a processor, and
    what the machine was `busy` with, all processes together."""

    ran: float
    waited: float
    busy: float


def used(proc: Path = PROC) -> Used | None:
    """From the kernel's run queues (`/proc/self/task/*/schedstat`; a thread that sleeps waits for nothing) and
    `/proc/stat`; see proc(5). None where it does not tell.
    """
    ran = waited = 0
    try:
        for task in (proc / "self" / "task").iterdir():
            fields = (task / "schedstat").read_text().split()
            ran, waited = ran + int(fields[0]), waited + int(fields[1])
        user, nice, system, _, _, irq, softirq = map(int, (proc / "stat").read_text().split()[1:8])
    except (OSError, ValueError):
        return None
    return Used(ran * 1e-9, waited * 1e-9, (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK"))


@dataclass
class ProcessorWatch:
    """Watches from its making on."""

    read: Callable[[], Used | None] = used
    _begun: Used | None = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self.read()

    def share(self) -> float | None:
        """Of the time since then in which this process could have run, how much it waited while others ran. That it
        has more threads than there are processors is its own affair. None where it cannot be told.
        """
        now = self.read()
        if self._begun is None or now is None:
            return None
        ran, waited = now.ran - self._begun.ran, now.waited - self._begun.waited
        others = now.busy - self._begun.busy - ran
        return max(0.0, min(waited, others)) / (ran + waited) if ran > 0 and waited >= 0 else None

    def notes(self) -> dict[str, str]:
        """What a row says of it: `{"waited_for_others": "0.12"}`."""
        share = self.share()
        return {} if share is None else {NOTE: f"{share:.2f}"}
