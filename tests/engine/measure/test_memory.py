"""Peak memory: the host's from a written /proc, the card's from a fake one, the allocator's from a fake allocator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from perf.measure.memory import AllocatorMeter, CardMemoryMeter, ResidentMeter
from perf.measure.nvml import CardState
from perf.measure.repeats import Repeats

MIB = 1 << 20


class Proc:
    """A folder that looks like /proc/self; each call leaves the status that the kernel would show after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trimmed = 0
        (folder / "clear_refs").write_text("")
        self.show(rss_kb=50_000, peak_kb=900_000)

    def show(self, rss_kb: int, peak_kb: int) -> None:
        (self.folder / "status").write_text(f"Name:\tpython\nVmHWM:\t  {peak_kb} kB\nVmRSS:\t  {rss_kb} kB\n")

    def trim(self) -> None:
        self.trimmed += 1


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_the_host_peak_is_what_the_call_added(proc: Proc) -> None:
    meter = ResidentMeter(proc.folder, proc.trim, repeats=Repeats(calls=1))
    found = meter.measure(lambda: proc.show(rss_kb=51_000, peak_kb=54_096))
    assert found == {"rss_peak_bytes": 4096 * 1024}
    assert (proc.folder / "clear_refs").read_text() == "5"
    assert proc.trimmed == 1


def test_the_median_of_a_few_calls_is_reported(proc: Proc) -> None:
    peaks = iter([90_000, 54_000, 53_000])

    def call() -> None:
        proc.show(rss_kb=50_000, peak_kb=next(peaks))

    assert ResidentMeter(proc.folder, proc.trim, repeats=Repeats(calls=3, max_s=60.0)).measure(call) == {
        "rss_peak_bytes": 4000 * 1024
    }
    assert proc.trimmed == 3


def test_growth_too_small_to_mean_anything_is_absent(proc: Proc) -> None:
    assert ResidentMeter(proc.folder, proc.trim).measure(lambda: proc.show(50_000, 50_900)) == {}


def test_absent_where_the_peak_cannot_be_reset(proc: Proc) -> None:
    (proc.folder / "clear_refs").unlink()
    (proc.folder / "clear_refs").mkdir()  # writing to it raises OSError, for root as well
    assert ResidentMeter(proc.folder, proc.trim).measure(lambda: proc.show(50_000, 90_000)) == {}


def test_a_tensor_is_seen_by_the_real_host_meter() -> None:
    found = ResidentMeter().measure(lambda: torch.ones(32 * MIB, dtype=torch.uint8).max())
    # empty where clear_refs is not ours to write; the kernel counts resident pages in batches
    assert not found or 31 * MIB <= found["rss_peak_bytes"] < 64 * MIB


class FakeCard:
    def __init__(self, own_bytes: int | None) -> None:
        self.own_bytes, self.read_after = own_bytes, 0

    def state(self) -> CardState:
        return CardState(own_bytes=self.own_bytes)


def test_the_card_is_read_after_the_call_is_done() -> None:
    card, order = FakeCard(None), []

    def wait() -> None:
        order.append("wait")
        card.own_bytes = 3 * MIB

    assert CardMemoryMeter(card, wait).measure(lambda: order.append("call")) == {"nvml_peak_bytes": 3 * MIB}
    assert order == ["call", "wait"]


def test_absent_where_nvml_does_not_tell_processes_apart() -> None:
    assert CardMemoryMeter(FakeCard(None), lambda: None).measure(lambda: None) == {}


def test_the_allocator_peak_is_above_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"now": 100, "peak": 900}
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: held["now"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: held["peak"])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: held.update(peak=held["now"]))
    found = AllocatorMeter(lambda: None).measure(lambda: held.update(now=120, peak=164))
    assert found == {"peak_bytes": 64.0}
