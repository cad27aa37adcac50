"""How long a process waited while others had the processor, from the kernel's own files as they are written here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perf.judge.disturbed import set_aside
from perf.measure.disturbance import disturbed
from perf.measure.processor import ProcessorWatch, Used, used
from perf.outcome import Verdict, Word

TICK = os.sysconf("SC_CLK_TCK")


def proc(path: Path, threads: dict[int, str], busy_ticks: int) -> Path:
    for number, schedstat in threads.items():
        (path / "self" / "task" / str(number)).mkdir(parents=True)
        (path / "self" / "task" / str(number) / "schedstat").write_text(schedstat)
    (path / "stat").write_text(f"cpu  {busy_ticks - 10} 1 2 90000 700 3 4 999 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    return path


def test_all_threads_count_and_idle_stolen_and_waiting_for_disks_do_not(tmp_path: Path) -> None:
    found = used(proc(tmp_path, {1: "2000000000 500000000 9\n", 7: "1000000000 250000000 3\n"}, busy_ticks=40 * TICK))
    assert found == Used(ran=3.0, waited=0.75, busy=40.0)


@pytest.mark.parametrize("missing", ["stat", "self/task/1/schedstat"])
def test_a_kernel_that_does_not_tell_is_not_known(tmp_path: Path, missing: str) -> None:
    (proc(tmp_path, {1: "1 1 1"}, 100) / missing).unlink()
    assert used(tmp_path) is None
    assert ProcessorWatch(lambda: used(tmp_path)).notes() == {}


def watch(*seen: Used | None) -> dict[str, str]:
    readings: Iterator[Used | None] = iter(seen)
    return ProcessorWatch(lambda: next(readings)).notes()


@pytest.mark.parametrize(
    ("after", "share"),
    [
        (Used(11.0, 5.0, 101.0), "0.00"),  # ran 1 s, waited for nothing
        (Used(11.0, 5.5, 102.0), "0.33"),  # ran 1 s, waited 0.5 s, while others ran 1 s
        (Used(11.0, 8.0, 101.0), "0.00"),  # waited 3 s for its own threads: nobody else ran
        (Used(11.0, 8.0, 101.2), "0.05"),  # others ran 0.2 s of the 4 s
    ],
)
def test_only_what_others_ran_is_waited_for_others(after: Used, share: str) -> None:
    assert watch(Used(10.0, 5.0, 100.0), after) == {"waited_for_others": share}


def test_threads_that_ended_take_their_counts_with_them() -> None:
    assert watch(Used(10.0, 5.0, 100.0), Used(9.0, 5.0, 101.0)) == {}
    assert watch(Used(10.0, 5.0, 100.0), Used(11.0, 4.0, 101.0)) == {}
    assert watch(None, Used(11.0, 4.0, 101.0)) == {}


BUSY = {"waited_for_others": "0.30"}
WHY = "disturbed: others had the processor for 30% of the time"


def test_a_busy_processor_disturbs_all_but_kernel_time() -> None:
    assert disturbed({"waited_for_others": "0.05"}) == ""
    assert disturbed(BUSY, "latency_s") == "others had the processor for 30% of the time"
    assert disturbed(BUSY, "device_s") == ""
    assert disturbed({"foreign_processes": "1"}, "device_s") == "others on the card: 1 process"


@pytest.mark.parametrize(
    ("metric", "word", "notes", "left"),
    [
        ("latency_s", Word.REGRESSED, [BUSY], Word.INCONCLUSIVE),
        ("latency_s", Word.IMPROVED, [BUSY], Word.INCONCLUSIVE),
        ("latency_s", Word.REGRESSED, [{}, {}, BUSY], Word.INCONCLUSIVE),  # a re-measurement was
        ("latency_s", Word.REGRESSED, [{}, {}], Word.REGRESSED),
        ("latency_s", Word.SAME, [BUSY], Word.SAME),
        ("latency_s", Word.WRONG, [BUSY], Word.WRONG),
        ("device_s", Word.REGRESSED, [BUSY], Word.REGRESSED),
        ("peak_bytes", Word.REGRESSED, [BUSY], Word.REGRESSED),
    ],
)
def test_a_disturbed_time_is_no_change(metric: str, word: Word, notes: list[dict[str, str]], left: Word) -> None:
    (found,) = set_aside([Verdict("a", metric, word, 2.0, 1.0, note="so")], {"a": notes})
    assert found.word is left
    assert found.note == ("so" if left is word else f"so; {WHY}")
