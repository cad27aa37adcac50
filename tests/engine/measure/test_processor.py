"""How long a process waited while others had the processor, from the kernel's own files as they are written here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perf.disturbance import WAITED, disturbed
from perf.judge.disturbed import set_aside, undisturbed
from perf.measure.processor import ProcessorWatch, Used, around, others_busy, used
from perf.outcome import Verdict, Word

TICK = os.sysconf("SC_CLK_TCK")


def proc(path: Path, threads: dict[int, str], busy_ticks: int) -> Path:
    """Of a machine whose first processor that this process may use was busy for so long, and whose others never were;
    nor is one that it may not use counted."""
    for number, schedstat in threads.items():
        (path / "self" / "task" / str(number)).mkdir(parents=True)
        (path / "self" / "task" / str(number) / "schedstat").write_text(schedstat)
    first, *others = sorted(os.sched_getaffinity(0))
    lines = [f"cpu{first} {busy_ticks - 10} 1 2 90000 700 3 4 999 0 0", "cpu999 777 7 7 7 7 7 7 7 0 0"]
    lines += [f"cpu{number} 0 0 0 5 5 0 0 5 0 0" for number in others]
    (path / "stat").write_text("\n".join(["cpu  1 1 1 1 1 1 1 1 0 0", *lines, "ctxt 5", ""]))
    return path


def test_all_threads_count_and_idle_stolen_and_waiting_for_disks_do_not(tmp_path: Path) -> None:
    found = used(proc(tmp_path, {1: "2000000000 500000000 9\n", 7: "1000000000 250000000 3\n"}, busy_ticks=40 * TICK))
    assert found is not None
    assert (found.waited, found.busy) == (0.75, 40.0)
    assert 0 < found.own < found.at


@pytest.mark.parametrize("missing", ["stat", "self/task/1/schedstat"])
def test_a_kernel_that_does_not_tell_is_not_known(tmp_path: Path, missing: str) -> None:
    (proc(tmp_path, {1: "1 1 1"}, 100) / missing).unlink()
    assert used(tmp_path) is None
    assert ProcessorWatch(lambda: used(tmp_path)).notes() == {}


@pytest.mark.parametrize("text", ["", "cpu0 1 2\n", "cpu0 a b c d e f g h\n"])
def test_odd_files_are_not_known_either(tmp_path: Path, text: str) -> None:
    path = proc(tmp_path, {1: "1 1 1"}, 100)
    (path / "self" / "task" / "1" / "schedstat").write_text("1\n")
    assert used(path) is None
    (path / "self" / "task" / "1" / "schedstat").write_text("1 1 1\n")
    (path / "stat").write_text(text.replace("cpu0", f"cpu{min(os.sched_getaffinity(0))}"))
    assert used(path) is None


def watch(*seen: Used | None) -> dict[str, str]:
    readings: Iterator[Used | None] = iter(seen)
    return ProcessorWatch(lambda: next(readings)).notes()


BEGUN = Used(at=50.0, own=10.0, waited=5.0, busy=100.0)


@pytest.mark.parametrize(
    ("after", "share"),
    [
        (Used(51.0, 11.0, 5.0, 101.0), "0.00"),  # ran for the whole second
        (Used(51.0, 10.6, 5.4, 101.4), "0.40"),  # waited 0.4 s of it while others ran
        (Used(60.0, 10.1, 5.1, 105.0), "0.01"),  # slept nearly all of ten seconds, and waited 0.1 s
        (Used(51.0, 11.0, 8.0, 101.0), "0.00"),  # waited 3 s for its own threads: nobody else ran
        (
            Used(51.0, 11.0, 6.0, 102.0),
            "0.50",
        ),  # two threads on two processors, each of which another had half of the time
        (Used(51.0, 12.0, 5.5, 102.5), "0.20"),  # ran 2 s on several processors, and waited 0.5 s
        (Used(51.0, 11.0, 4.0, 101.5), "0.00"),  # a thread ended and took what it had waited with it
    ],
)
def test_only_what_others_ran_is_waited_for_others(after: Used, share: str) -> None:
    assert watch(BEGUN, after) == {"waited_for_others": share}


def test_what_is_not_known_is_not_noted() -> None:
    assert watch(None, BEGUN) == {}
    assert watch(BEGUN, None) == {}


def test_processes_of_their_own_are_disturbed_by_who_is_there_before_or_after() -> None:
    processors = len(os.sched_getaffinity(0))
    readings = iter([BEGUN, Used(50.2, 10.0, 5.0, 100.0 + 0.1 * processors)])
    assert others_busy(lambda: next(readings), lambda seconds: None) == {"waited_for_others": "0.50"}
    assert others_busy(lambda: None, lambda seconds: None) == {}
    for seen, more in (([{WAITED: "0.30"}, {WAITED: "0.01"}], "0.30"), ([{WAITED: "0.01"}, {WAITED: "0.40"}], "0.40")):
        looks = iter(seen)
        with around(lambda: next(looks)) as notes:  # noqa: B023
            assert notes == {}
        assert notes == {WAITED: more}


BUSY = {"waited_for_others": "0.30"}
WHY = "disturbed: others had the processor for 30% of the time"


def test_a_busy_processor_disturbs_all_but_kernel_time() -> None:
    assert disturbed({"waited_for_others": "0.05"}) == ""
    assert disturbed(BUSY, "latency_s") == "others had the processor for 30% of the time"
    assert disturbed(BUSY, "device_s") == ""
    assert disturbed({"waited_for_others": "much"}) == "waited_for_others is 'much', and no share"
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


def test_no_drift_is_told_of_a_disturbed_time() -> None:
    drifts = [
        ("a", "latency_s", "+9%"),
        ("a", "device_s", "+9%"),
        ("a", "peak_bytes", "+9%"),
        ("b", "latency_s", "+9%"),
    ]
    assert undisturbed(drifts, {"a": [BUSY], "b": [{}]}) == drifts[1:]
