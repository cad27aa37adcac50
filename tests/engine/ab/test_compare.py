"""The course of a comparison between scripted processes: restarts, looks, cases on one side alone, and deaths."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from perf.ab.compare import Plan, compare
from perf.ab.findings import Findings
from perf.ab.interleave import Durations, SideDiedError
from perf.ab.table import lines
from perf.errors import CoregateError
from perf.outcome import Word

ONE, TWO, THREE = "one/tiny/eager/s/cpu", "two/tiny/eager/s/cpu", "three/tiny/eager/s/cpu"


@dataclass
class Code:
    """One side's code: milliseconds of a call by case, what `build` says (else ready), what it dies of or never builds,
    and by how much (standard deviation, on logs) a process of it differs from the next."""

    calls_ms: dict[str, float]
    skips: dict[str, str] = field(default_factory=dict)
    builds: dict[str, tuple[str, str]] = field(default_factory=dict)
    deadly: frozenset[str] = frozenset()
    endless: frozenset[str] = frozenset()
    spread: float = 0.0


@dataclass
class Script:
    """Starts pairs of processes of two codes; time passes in calls, and `start_s` a start."""

    base: Code
    head: Code
    start_s: float = 1.0
    now: float = 0.0
    dice: Random = field(default_factory=lambda: Random(8))
    starts: list[list[str]] = field(default_factory=list)
    running: int = 0
    checked: list[bool] = field(default_factory=list)

    @contextmanager
    def start(self) -> Iterator[tuple[Process, Process]]:
        assert self.running == 0, "a pair is started before the last one is gone"
        self.running += 1
        self.starts.append([])
        self.now += self.start_s
        try:
            yield Process("base", self.base, self), Process("head", self.head, self)
        finally:
            self.running -= 1

    def compare(self, plan: Plan) -> Findings:
        self.told: list[str] = []
        return compare(self.start, plan, lambda: self.now, Random(9), self.told.append)


class Process:
    def __init__(self, side: str, code: Code, script: Script) -> None:
        self._side, self._code, self._script = side, code, script
        self._luck = math.exp(script.dice.gauss(0, code.spread))
        self._built = ""

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]:
        if ask == "cases":
            cases = {key: ["latency_s"] for key in self._code.calls_ms}
            return {"cases": cases, "skips": self._code.skips}
        assert ask == "build"
        key = fields["key"]
        self._script.checked.append(fields["checked"])
        self._script.starts[-1].append(f"{self._side} {key}")
        if key in self._code.deadly:
            raise SideDiedError(self._side, "killed by SIGSEGV")
        if key in self._code.endless:
            raise SideDiedError(self._side, "no answer within 15 min", in_time=False)
        word, why = self._code.builds.get(key, ("ready", ""))
        self._built = key if word == "ready" else ""
        return {"word": word, "why": why}

    def run(self, key: str, calls: int) -> Durations:
        assert key == self._built
        durations = [self._luck * self._code.calls_ms[key] / 1e3] * calls
        self._script.now += sum(durations)
        return {"latency_s": durations}


def words(findings: Findings) -> dict[str, Word]:
    return {found.key: found.word for found in findings.verdicts(0.03)}


def noted(findings: Findings, key: str) -> str:
    (found,) = (found for found in findings.verdicts(0.03) if found.key == key)
    return found.note


def test_a_slower_a_faster_and_an_equal_case_are_told_apart_at_the_first_look() -> None:
    script = Script(Code({ONE: 1.0, TWO: 1.0, THREE: 1.0}, spread=1e-4), Code({ONE: 1.1, TWO: 0.9, THREE: 1.0}))
    findings = script.compare(Plan())
    assert words(findings) == {ONE: Word.REGRESSED, TWO: Word.IMPROVED, THREE: Word.SAME}
    assert len(script.starts) == 4
    ratios = {found.key: found.ratio for found in findings.verdicts(0.03)}
    assert ratios == pytest.approx({ONE: 1.1, TWO: 0.9, THREE: 1.0}, rel=1e-3)


def test_every_restart_is_a_fresh_pair_that_builds_each_case_once() -> None:
    script = Script(Code({ONE: 1.0, TWO: 1.0}), Code({ONE: 1.0, TWO: 1.0}))
    script.compare(Plan(restarts=3))
    both = sorted(f"{side} {key}" for side in ("base", "head") for key in (ONE, TWO))
    assert [sorted(built) for built in script.starts] == [both] * 3


def test_parity_is_checked_in_the_first_restart_alone() -> None:
    script = Script(Code({ONE: 1.0, TWO: 1.0}), Code({ONE: 1.0, TWO: 1.0}))
    script.compare(Plan(restarts=3))
    assert script.checked == [False] * 4 + [True] * 8  # two cases on two sides, and three restarts


def test_a_decided_case_is_not_measured_again() -> None:
    """Through 2 % between processes four restarts see that one is twice as slow, but not that two is the same."""
    script = Script(Code({ONE: 1.0, TWO: 1.0}, spread=0.02), Code({ONE: 2.0, TWO: 1.0}))
    findings = script.compare(Plan())
    by_case = {key: len(tests[0].restarts) for key, tests in findings.tests.items()}
    assert by_case[ONE] == 4
    assert by_case[TWO] > 4
    assert all(f"base {ONE}" not in built for built in script.starts[4:])


def test_processes_that_differ_are_not_taken_for_code_that_differs() -> None:
    """10 % between processes and none within: thousands of samples a restart say nothing more about the code."""
    script = Script(Code({ONE: 1.0}, spread=0.10), Code({ONE: 1.0}, spread=0.10))
    findings = script.compare(Plan())
    assert words(findings) == {ONE: Word.INCONCLUSIVE}
    assert f"given up as too noisy at 3.0% after {len(script.starts)} restarts" in noted(findings, ONE)
    assert len(script.starts) < 40, "given up as hopeless"


def test_either_side_is_built_first_by_chance() -> None:
    script = Script(Code({ONE: 1.0}, spread=0.05), Code({ONE: 1.0}, spread=0.05))
    script.compare(Plan())
    assert {built[0] for built in script.starts} == {f"base {ONE}", f"head {ONE}"}


def test_when_time_is_up_what_is_open_is_inconclusive_and_says_what_would_have_been_seen() -> None:
    script = Script(Code({ONE: 1.0}, spread=0.02), Code({ONE: 1.0}, spread=0.02), start_s=10.0)
    findings = script.compare(Plan(budget_s=25.0))
    assert words(findings) == {ONE: Word.INCONCLUSIVE}
    assert len(script.starts) == 3
    (test,) = findings.all
    assert f"+{test.found.smallest_visible:.1%} would have been seen 80% of the time" in noted(findings, ONE)


def test_one_restart_before_time_is_up_is_no_comparison() -> None:
    script = Script(Code({ONE: 1.0}), Code({ONE: 2.0}), start_s=30.0)
    findings = script.compare(Plan(budget_s=10.0))
    assert words(findings) == {ONE: Word.INCONCLUSIVE}
    assert "before a second restart: raise --budget-minutes" in noted(findings, ONE)


def test_a_case_on_one_side_alone_is_new_or_missing() -> None:
    head = Code({ONE: 1.0, TWO: 1.0}, skips={THREE: "package onnx is not installed"})
    findings = Script(Code({ONE: 1.0, THREE: 1.0}), head).compare(Plan(restarts=2))
    assert words(findings) == {ONE: Word.SAME, TWO: Word.NEW, THREE: Word.MISSING}
    assert noted(findings, TWO) == "not in the base"
    assert noted(findings, THREE) == "package onnx is not installed"


@pytest.mark.parametrize(
    ("base", "head", "word", "why"),
    [
        ("ready", "wrong", Word.WRONG, "in the head: because"),
        ("wrong", "wrong", Word.WRONG, "in the head: because"),
        ("wrong", "ready", Word.INCOMPARABLE, "in the base: because"),  # a repair is no fault of the head
        ("ready", "unsupported", Word.MISSING, "in the head: because"),
        ("unsupported", "ready", Word.NEW, "in the base: because"),
    ],
)
def test_what_is_not_ready_on_both_sides_is_not_timed(base: str, head: str, word: Word, why: str) -> None:
    codes = [Code({ONE: 1.0, TWO: 1.0}, builds={TWO: (said, "because")}) for said in (base, head)]
    script = Script(codes[0], codes[1])
    findings = script.compare(Plan(restarts=2))
    assert words(findings) == {ONE: Word.SAME, TWO: word}
    assert noted(findings, TWO) == why
    assert sum(f"head {TWO}" in built for built in script.starts) == 1


def test_what_runs_on_neither_side_is_a_skip() -> None:
    codes = [Code({ONE: 1.0, TWO: 1.0}, builds={TWO: ("unsupported", "no axis")}) for _ in range(2)]
    codes[0].skips = codes[1].skips = {THREE: "needs a GPU"}
    findings = Script(codes[0], codes[1]).compare(Plan(restarts=2))
    assert words(findings) == {ONE: Word.SAME}
    assert findings.skips == {TWO: "no axis", THREE: "needs a GPU"}


@pytest.mark.parametrize(("side", "word"), [("head", Word.WRONG), ("base", Word.INCOMPARABLE)])
def test_a_process_that_dies_costs_its_case_alone(side: str, word: Word) -> None:
    cases = {ONE: 1.0, TWO: 1.0, THREE: 1.0}
    codes = {name: Code(dict(cases), deadly=frozenset({TWO} if name == side else ())) for name in ("base", "head")}
    script = Script(codes["base"], codes["head"])
    findings = script.compare(Plan(restarts=2))
    assert words(findings) == {ONE: Word.SAME, TWO: word, THREE: Word.SAME}
    assert noted(findings, TWO) == f"the {side}'s process ended over it: killed by SIGSEGV"
    assert len(script.starts) == 3


@pytest.mark.parametrize("side", ["head", "base"])
def test_what_takes_longer_to_build_than_there_is_time_is_inconclusive_on_either_side(side: str) -> None:
    codes = {name: Code({ONE: 1.0, TWO: 1.0}) for name in ("base", "head")}
    codes[side].endless = frozenset({ONE})
    findings = Script(codes["base"], codes["head"]).compare(Plan(restarts=2))
    assert words(findings) == {ONE: Word.INCONCLUSIVE, TWO: Word.SAME}
    assert noted(findings, ONE) == f"the {side}'s process ended over it: no answer within 15 min"


def test_no_case_in_common_is_an_error_with_the_counts() -> None:
    with pytest.raises(CoregateError, match="no case in common: base has 1 and head has 2") as caught:
        Script(Code({ONE: 1.0}), Code({TWO: 1.0, THREE: 1.0})).compare(Plan())
    assert "\n" not in str(caught.value)


def test_a_clock_that_no_case_has_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(CoregateError, match="--clock device_s: there are latency_s"):
        Script(Code({ONE: 1.0}), Code({ONE: 1.0})).compare(Plan(clocks=("device_s",)))


def test_progress_is_told_a_line_a_restart() -> None:
    script = Script(Code({ONE: 1.0}), Code({ONE: 1.0}), start_s=30.0)
    script.compare(Plan(restarts=2, budget_s=600.0))
    assert script.told[0].startswith("restart 1 of at most 2: 1 undecided, 9.5 min left")
    assert script.told[1].startswith("restart 2 of at most 2: 0 undecided")


def test_the_table_says_ratio_interval_pairs_and_word() -> None:
    script = Script(Code({ONE: 1.0, TWO: 1.0}, spread=1e-4), Code({ONE: 1.25}, spread=1e-4))
    shown = lines(script.compare(Plan(restarts=20)), 0.03, 20)
    heading, one, two = shown[0], shown[1], shown[2]
    assert heading.split() == ["case", "clock", "base", "head", "change", "interval", "pairs", "verdict"]
    assert one.split()[:7] == [ONE, "latency_s", "1", "ms", "1.25", "ms", "+25.0%"]
    assert float(one.split()[7]) < 25.0 < float(one.split()[9].rstrip("%"))
    assert one.endswith("48 in 4 restarts  regressed")  # six quads of two pairs, four times
    assert (two.split()[0], two.split()[-1]) == (TWO, "missing")
    assert {"1 regressed, 1 missing", f"missing: {TWO}: not in the head"} <= set(shown)
    assert "All intervals hold together in 99% of comparisons (1 test × 5 looks, Bonferroni)." in shown
