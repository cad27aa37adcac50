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
        ([latency(hidden=True), kernels(Word.SAME, "another/tiny/eager-bf16/b5/cuda")], 1),
        ([latency(hidden=True), Verdict(KEY, "peak_bytes", Word.SAME, 1.0, 1.0)], 1),
    ],
)
def test_kernel_time_decides_a_case_whose_latency_is_hidden(verdicts: list[Verdict], left_open: int) -> None:
    assert len(undecided(verdicts)) == left_open


@pytest.mark.parametrize(("seconds", "hidden"), [(0.0102, True), (0.012, True), (1.0, False)])
def test_a_latency_is_hidden_within_its_noise_and_beyond_it_is_not(seconds: float, hidden: bool) -> None:
    """Runs a fifth apart: +20 % is nothing new, a hundred times as long is, though nobody has measured it again."""
    history = [0.010, 0.012, 0.008, 0.011, 0.009]
    baseline = [{KEY: Row(KEY, {"latency_s": value, "device_s": 0.002})} for value in history]
    found = compare([Row(KEY, {"latency_s": seconds, "device_s": 0.002})], baseline, {}).verdicts({})
    words = {verdict.metric: verdict for verdict in found}
    assert words["device_s"].word is Word.SAME
    assert not words["device_s"].hidden
    again = words["latency_s"]
    assert (again.word in (Word.INCONCLUSIVE, Word.REGRESSED), again.hidden) == (True, hidden)


def test_the_table_shows_what_decides() -> None:
    rows = {KEY: Row(KEY, {"latency_s": 0.012, "device_s": 0.0021})}
    for verdicts, line in (
        ([latency(hidden=True), kernels(Word.SAME)], "device_s 2 ms (+5.0%)  same"),
        ([latency(hidden=True), kernels(Word.REGRESSED)], "device_s 2 ms (+5.0%)  regressed"),
        ([latency(hidden=False), kernels(Word.SAME)], "10 ms (+20.0%)  inconclusive"),
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

    def measure(self, keys: object) -> dict[str, Row]:
        return {KEY: Row(KEY, {"device_s": 0.0021}, notes={"foreign_processes": "1"})}


@pytest.mark.parametrize(("on_card", "why"), [(True, ""), (False, "others on the card: 1 process")])
def test_a_run_that_waits_on_the_card_does_not_disturb_its_own_second_look(
    monkeypatch: pytest.MonkeyPatch, on_card: bool, why: str
) -> None:
    monkeypatch.setattr(judgement, "on_card", lambda: on_card)
    ledger = SimpleNamespace(span=lambda name: nullcontext())
    bench = SimpleNamespace(close=lambda: None, ledger=ledger)
    run: Any = SimpleNamespace(workbench=bench, options=SimpleNamespace(confirm=2))
    rows, problems = judgement._again(run, Alone((), Path()), [KEY])
    assert (len(rows), problems) == (2, [])
    assert {disturbed(found[KEY].notes) for found in rows} == {why}
