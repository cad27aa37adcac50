"""Instructions that the calling thread retires in user space, counted by the processor through `perf_event_open(2)`.

A count does not depend on clock speed, neighbours or caches: it shows that the host's share of a call grew where
latency is too noisy to. Other threads are not counted (they spin while they wait), and neither is the kernel.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from perf.measure.repeats import Reading, Repeats, at_once

SYSCALLS = {"x86_64": 298, "aarch64": 241}
HARDWARE, INSTRUCTIONS = 0, 1
PINNED, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 2, 1 << 5, 1 << 6
"""Pinned: it counts all the time or not at all, and is never scaled up from a share of the time. `inherit` stays off.
"""
ATTRIBUTES = struct.Struct("IIQQQQQ64x")
"""`struct perf_event_attr` of version 5 (112 bytes): type, size, config, period, sample type, read format, flags."""
RESET = 0x2403


def attributes() -> bytes:
    """The event, as the system call wants it."""
    flags = PINNED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
    return ATTRIBUTES.pack(HARDWARE, ATTRIBUTES.size, INSTRUCTIONS, 0, 0, 0, flags)


@contextmanager
def thread_counter() -> Iterator[Reading | None]:
    """Instructions of this thread since the counter was opened; None where processor, kernel or container refuse."""
    descriptor = _open()
    if descriptor is None:
        yield None
        return
    try:
        fcntl.ioctl(descriptor, RESET, 0)
        yield (lambda: _read(descriptor)) if os.read(descriptor, 8) else None  # pinned and not scheduled: end of file
    finally:
        os.close(descriptor)


def _open() -> int | None:
    number = SYSCALLS.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return None
    event = ctypes.create_string_buffer(attributes(), ATTRIBUTES.size)
    this_thread, any_core, no_group, no_flags = map(ctypes.c_long, (0, -1, -1, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(ctypes.c_long(number), event, this_thread, any_core, no_group, no_flags)
    return int(descriptor) if descriptor >= 0 else None


def _read(descriptor: int) -> float:
    return float(int.from_bytes(os.read(descriptor, 8), sys.byteorder))


@dataclass(frozen=True)
class InstructionMeter:
    """`host_instructions`: the median over a few calls. `wait` for the device stands apart from the count, since a
    thread that spins until a kernel ends would count the kernel's length. Empty where they cannot be counted.
    """

    wait: Callable[[], None] = at_once
    counter: Callable[[], AbstractContextManager[Reading | None]] = thread_counter
    repeats: Repeats = field(default_factory=Repeats)

    def measure(self, call: Callable[[], object]) -> Mapping[str, float]:
        with self.counter() as reading:
            if reading is None:
                return {}
            return {"host_instructions": self.repeats.median_growth(reading, call, between=self.wait)}
