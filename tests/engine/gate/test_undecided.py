"""What leaves a run open: noise that hides a latency does not, where the case's kernel time has its word."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perf import judgement
from perf.confirm import Command
from perf.disturbance import but_one, disturbed
from perf.interrupts import Interrupts
from perf.judge.verdict import compare
from perf.outcome import Row, Verdict, Word, undecided
from perf.report.cases import case_table

KEY = "toy/tiny/eager-bf16/b5/cuda"


def latency(hidden: bool, word: Word = Word.INCONCLUSIVE) -> Verdict:
    return Verdict(KEY, "latency_s", word, 0.012, 0.010, 0.05, hidden=hidden)


def kernels(word: Word, key: str = KEY) -> Verdict:
    return Verdict(key, "device_s", word, 0.0021, 0.002, 0.02)


@pytest.mark.parametrize(
    ("verdicts", "left_open"),
    [
        ([latency(hidden=True)], 1),  # nothing else is known of the case
        ([latency(hidden=True), kernels(Word.SAME)], 0),
        ([latency(hidden=True), kernels(Word.REGRESSED)], 0),
        ([latency(hidden=False), kernels(Word.SAME)], 1),  # something was seen, and could not be told
        ([latency(hidden=True), kernels(Word.INCONCLUSIVE)], 2),
        ([latency(hidden=True), kernels(Word.NEW)], 1),  # nothing was judged
        ([latency(hidden=True), kernels(Word.INCOMPARABLE)], 1),
        ([latency(hidden=True), kernels(Word.SAME, "another/tiny/eager-bf16/b5/cuda")], 1),
        ([latency(hidden=True), Verdict(KEY, "peak_bytes", Word.SAME, 1.0, 1.0)], 1),
    ],
)
def test_kernel_time_decides_a_case_whose_latency_is_hidden(verdicts: list[Verdict], left_open: int) -> None:
    assert len(undecided(verdicts)) == left_open


HISTORY = [0.010, 0.012, 0.008, 0.011, 0.009]
"""Runs a fifth apart: the bound of one run is beyond +100 %."""


def judged(seconds: float, *again: float) -> Verdict:
    baseline = [{KEY: Row(KEY, {"latency_s": value, "device_s": 0.002})} for value in HISTORY]
    found = compare([Row(KEY, {"latency_s": seconds, "device_s": 0.002})], baseline, {})
    first, kernel_time = found.verdicts({(KEY, "latency_s"): again})
    assert (first.metric, kernel_time.word, kernel_time.hidden) == ("latency_s", Word.SAME, False)
    assert (KEY in found.suspects()) is (seconds > 0.018)
    return first


@pytest.mark.parametrize(
    ("seconds", "again", "hidden"),
    [
        (0.0102, (), True),
        (0.012, (), True),
        (0.0179, (), True),
        (0.0181, (), False),  # half as much again as the slowest run is never hidden, whatever the noise explains
        (0.026, (0.013, 0.012), True),  # one process had it, two others not
        (0.026, (0.020, 0.012), False),
        (0.016, (0.100, 0.100), False),
    ],
)
def test_a_latency_is_hidden_within_its_noise_and_half_as_much_again_is_not(
    seconds: float, again: tuple[float, ...], hidden: bool
) -> None:
    found = judged(seconds, *again)
    assert (found.word, found.hidden) == (Word.INCONCLUSIVE, hidden)


def test_the_table_shows_what_decides() -> None:
    rows = {KEY: Row(KEY, {"latency_s": 0.012, "device_s": 0.0021})}
    peak = Verdict(KEY, "peak_bytes", Word.REGRESSED, 1.03e6, 1e6, 0.02)
    for verdicts, line in (
        ([latency(hidden=True), kernels(Word.REGRESSED), peak], "device_s 2 ms (+5.0%)  regressed"),
        ([latency(hidden=True), kernels(Word.SAME), peak], "peak_bytes 1 MB (+3.0%)  regressed"),
        ([latency(hidden=True), kernels(Word.SAME)], "device_s 2 ms (+5.0%)  same"),
        ([latency(hidden=True), kernels(Word.REGRESSED)], "device_s 2 ms (+5.0%)  regressed"),
        ([latency(hidden=False), kernels(Word.SAME)], "10 ms (+20.0%)  inconclusive"),
        ([latency(hidden=False, word=Word.SAME), kernels(Word.INCONCLUSIVE)], "device_s 2 ms (+5.0%)  inconclusive"),
        ([latency(hidden=False, word=Word.SAME), kernels(Word.SAME)], "10 ms (+20.0%)  same"),
    ):
        table = case_table(rows, verdicts, {})
        assert table[2].endswith(line)
        assert ("kernel time decides where noise hides the latency: 1 case" in table) == verdicts[0].hidden


@pytest.mark.parametrize(
    ("seen", "left"), [({}, None), ({"foreign_processes": "1"}, None), ({"foreign_processes": "3"}, "2")]
)
def test_one_process_of_ours_is_no_stranger_on_the_card(seen: dict[str, str], left: str | None) -> None:
    found = but_one({**seen, "seed": "1"})
    assert (found.get("foreign_processes"), found["seed"]) == (left, "1")
    assert bool(disturbed(found)) is (left is not None)


class Alone(Command):
    """One answer for each process: a row that was measured while this process held the card."""

    def measure(self, keys: object, *, compiled_anew: bool = False) -> dict[str, Row]:
        return {KEY: Row(KEY, {"device_s": 0.0021}, notes={"foreign_processes": "1"})}


@pytest.mark.parametrize(("on_card", "why"), [(True, ""), (False, "others on the card: 1 process")])
def test_a_run_that_waits_on_the_card_does_not_disturb_its_own_second_look(
    monkeypatch: pytest.MonkeyPatch, on_card: bool, why: str
) -> None:
    monkeypatch.setattr(judgement, "on_card", lambda: on_card)
    ledger = SimpleNamespace(span=lambda name: nullcontext())
    bench = SimpleNamespace(close=lambda: None, ledger=ledger)
    run: Any = SimpleNamespace(workbench=bench)
    rows, problems = judgement._again(run, Alone((), Path()), {KEY: False}, 2, Interrupts())
    assert (len(rows), problems) == (2, [])
    assert {disturbed(found[KEY].notes) for found in rows} == {why}


def test_a_start_has_no_line_among_the_timed_cases() -> None:
    start = Verdict(f"{KEY}#coldstart", "cold_s", Word.REGRESSED, 3.0, 1.0, 0.15)
    table = case_table({KEY: Row(KEY, {"latency_s": 0.010})}, [latency(hidden=False, word=Word.SAME), start], {})
    assert sum("eager-bf16" in line for line in table) == 2  # its line, and what failed below
    assert f"regressed: {KEY}#coldstart: cold_s +200.0% over a budget of +15%" in table
