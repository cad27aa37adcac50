"""Claims beside made-up records: each word, what is missing, what was measured elsewhere, and the page that says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from perf.__main__ import main
from perf.claims.answers import pairs
from perf.claims.evidence import UNTOLD, gather, read_record
from perf.claims.judge import judge, left_out, unanswered
from perf.claims.page import markdown_table, page
from perf.claims.reading import MissingError, Reading, readings
from perf.claims.words import Answer, Claim, Counting, Finding, Proof, Recording
from perf.errors import CoregateError
from tests.engine.claim_toys import COMMAND, record, row
from tests.engine.runs import entry, write_run

KEY, FAST = "toy/tiny/eager-fp32/b5/cpu", "toy/tiny/fast/b5/cpu"
MADE = Recording("c1-toy", "-m latency --core toy")


def gain(found: Reading) -> Answer:
    """Holds from twice as fast, depends below, fails where it is slower."""
    (pair,) = pairs(found, "eager-fp32", "fast")
    word = Finding.HOLDS if pair.ratio >= 2 else Finding.DEPENDS if pair.ratio > 1 else Finding.FAILS
    return Answer(f"{pair.ratio:.2f}×", word, table=(("a|b", "c"), ("1", "2")))


CLAIM = Claim("C1", "Compiled is twice as fast.", "2×", gain, (MADE,), why="Prose.")


@pytest.mark.parametrize(("fast_s", "finding"), [(0.25, Finding.HOLDS), (0.5, Finding.DEPENDS), (0.625, Finding.FAILS)])
def test_each_word_follows_from_the_rows(fast_s: float, finding: Finding) -> None:
    (line,) = judge([CLAIM], readings([record(row(KEY, 0.6), row(FAST, fast_s))]))
    assert (line.answer.finding, line.machine, line.commands) == (finding, "a-cpu-2c", (COMMAND,))
    assert unanswered([line]) == []


@pytest.mark.parametrize("rows", [(), (row(KEY, 0.5),), (row(FAST, 0.5),), (row(KEY, 0.5), row(FAST))])
def test_without_its_rows_a_claim_is_not_measured_and_says_what_to_run(rows: tuple[object, ...]) -> None:
    (line,) = judge([CLAIM], readings([record(*rows)]))  # type: ignore[arg-type]
    assert line.answer.finding is Finding.UNMEASURED
    assert line.commands == ("pytest -m latency --core toy --benchmark-storage=docs/results --benchmark-save=c1-toy",)
    assert line.commands[0] in line.answer.figure
    assert unanswered([line]) == ["C1"]


def test_a_claim_about_a_gpu_is_not_answered_by_a_cpu() -> None:
    claim = Claim("C1", "On a GPU.", "2×", gain, (MADE,), device="cuda")
    rows = row(KEY, 0.5), row(FAST, 0.25)
    on_cpu, still = judge([claim], readings([record(*rows)]))
    assert (on_cpu.answer.finding, on_cpu.answer.figure) == (Finding.ELSEWHERE, "2.00×")
    assert on_cpu.answer.because == "the claim is about a GPU"
    assert (still.answer.finding, still.machine) == (Finding.UNMEASURED, "a GPU")
    assert unanswered([on_cpu, still]) == ["C1"]
    (on_card,) = judge([claim], readings([record(*rows), record(*rows, machine="a-card", device="cuda")]))
    assert (on_card.machine, on_card.answer.finding) == ("a-card", Finding.HOLDS)
    assert unanswered([on_card]) == []


def test_a_proof_needs_no_record() -> None:
    (line,) = judge([Claim("C5", "Refused.", "-", Proof("it is refused", "pytest tests/x.py"))], [])
    shown = Answer("it is refused", Finding.HOLDS, "a test of this repository shows it")
    assert (line.answer, line.commands) == (shown, ("pytest tests/x.py",))


def test_numbers_of_different_runs_are_said_to_be() -> None:
    runs = [record(row(KEY, 0.6)), record(row(FAST, 0.3), at=2)]
    (line,) = judge([CLAIM], readings(runs))
    assert (line.answer.figure, line.apart) == ("2.00×", (f"{KEY} beside {FAST}",))
    assert f"Of different runs, since none has both: {KEY} beside {FAST}." in page([line]).splitlines()


def counted(found: Reading) -> Answer:
    """Of rows that count graphs."""
    lines = dict(found.lines(found.keys("*"), lambda key: found.counter(key, "graphs")))
    if not lines:
        raise MissingError("graphs")
    return Answer(f"{sum(lines.values())} graphs", Finding.HOLDS)


def test_a_row_that_lacks_something_is_left_out_by_name_and_hides_no_other() -> None:
    claim = Claim("C1", "Counted.", "-", counted, (MADE,))
    (line,) = judge([claim], readings([record(row(KEY, graphs=2), row(FAST))]))
    assert (line.answer.figure, line.answer.finding) == ("2 graphs", Finding.HOLDS)
    lack = f"{FAST}, for want of graphs"
    assert line.left_out == (lack,)
    assert left_out([line]) == [f"C1: {lack}"]
    assert f"Left out: {lack}." in page([line]).splitlines()
    alone, still = judge([claim], readings([record(row(FAST))]))
    assert (alone.answer.finding, alone.left_out) == (Finding.UNMEASURED, (lack,))
    assert (still.answer.finding, still.machine) == (Finding.UNMEASURED, "any machine")
    other = record(row(KEY, graphs=2), machine="b-cpu-4c")
    assert [line.left_out for line in judge([claim], readings([record(row(FAST)), other]))] == [(lack,), ()]


def test_commands_are_those_of_the_files_that_were_read() -> None:
    other = record(row("other/tiny/fast/b5/cpu", 1.0), at=2, command="another")
    untold = record(row(FAST, 0.25), at=3, command=UNTOLD)
    (line,) = judge([CLAIM], readings([record(row(KEY, 0.5)), other, untold]))
    assert line.commands == (COMMAND,)


# Files


def test_runs_counts_and_placements_are_gathered_by_machine(tmp_path: Path) -> None:
    state = {"hardware": {"gpu": "A Card"}, "command": COMMAND}
    write_run(tmp_path / "base" / "a-card" / "0001_x.json", entry(), machine="a-card", **state)
    write_run(tmp_path / "results" / "a-cpu-2c" / "0001_c1.json", entry())
    made = {"machine": "a-card", "device": "cuda", "command": "pytest -m placement"}
    counted = {"name": "toy/tiny/cpu/dynamic=None", "counters": {"graphs": 2}}
    placed = {"name": KEY, "counters": {"opset": 20}, "levels": {"all": 3}, "providers": ["CUDA", "CPU"]}
    (tmp_path / "results" / "c2.json").write_text(json.dumps({"torch": "2", "rows": [counted]}))
    (tmp_path / "results" / "c3.json").write_text(json.dumps({"onnxruntime": "1", "made": made, "rows": [placed]}))
    (tmp_path / "base" / "counters.json").write_text("{}")
    found = readings(gather(tmp_path / "base", tmp_path / "results"))
    assert [(item.machine, item.device) for item in found] == [("a-card", "cuda"), ("a-cpu-2c", "cpu"), ("any", "cpu")]
    assert found[0].value(KEY) == 0.5
    assert found[0].counter(f"placement:{KEY}", "opset") == 20
    assert found[0].counter(f"placement:{KEY}", "nodes_at_all") == 3
    assert found[0].note(f"placement:{KEY}", "providers") == "CUDA, CPU"
    assert {item.command for item in found[0].used.values()} == {COMMAND, "pytest -m placement"}
    assert found[2].counter("graphs:toy/tiny/cpu/dynamic=None", "graphs") == 2


ENDLESS = '{"rows": [{"name": "a", "counters": {"graphs": Infinity}}]}'


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"rows": [{}]}', '{"benchmarks": [], "machine_info": 3}', ENDLESS, "[" * 99999],
    ids=range(7),
)
def test_a_file_that_is_no_result_is_the_users_to_mend(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(CoregateError, match=r"x\.json is (no result|damaged)"):
        read_record(tmp_path / "x.json")


def test_a_recordings_command_names_its_file() -> None:
    counting = Counting("c6", "-m placement", "--placement-report")
    assert counting.command == "pytest -m placement --placement-report=docs/results/c6.json"


# The page


def test_the_page_has_a_row_and_a_section_a_claim() -> None:
    slow = Claim("C2", "Slow.", "-", gain, (MADE,), device="cuda")
    lines = page(judge([CLAIM, slow], readings([record(row(KEY, 0.5), row(FAST, 0.25))]))).splitlines()
    assert "| [C1](#c1) | 2× | 2.00× | a-cpu-2c | holds |" in lines
    assert "| [C2](#c2) | - | see below | a GPU | not measured yet |" in lines
    assert "1 answer, one for each claim and machine: 1 holds; not answered yet: C2." in lines
    assert "**a-cpu-2c**: holds. 2.00×." in lines
    assert lines[lines.index("## C1") :][6:13] == [
        "| a&#124;b | c |",
        "| --- | --- |",
        "| 1 | 2 |",
        "",
        "```console",
        f"$ {COMMAND}",
        "```",
    ]
    assert "Prose." in lines


def test_answers_are_counted_by_machine_and_told_where_they_differ() -> None:
    other = Claim("C2", "Also.", "2×", gain, (MADE,))
    fast = record(row(KEY, 0.5), row(FAST, 0.25))
    slow = record(row(KEY.replace("tiny", "full"), 0.5), row(FAST.replace("tiny", "full"), 0.5), machine="b-cpu-4c")
    both = page(judge([CLAIM, other], readings([fast, slow]))).splitlines()
    assert "4 answers, one for each claim and machine: 2 holds, 2 doesn't hold; machines differ on C1, C2." in both


def test_a_long_command_stands_once_in_full_at_the_end() -> None:
    long = f"pytest -m latency -k '{' or '.join(['one_of_many'] * 40)}'"
    other = Claim("C2", "Also.", "2×", gain, (MADE,))
    found = replace(record(row(KEY, 0.5), row(FAST, 0.25)), command=long)
    text = page(judge([CLAIM, other], readings([found])))
    assert text.count(long) == 1
    assert text.endswith(f"## Commands in full\n\n1.\n\n```console\n$ {long}\n```\n")
    beginning = "$ pytest -m latency -k 'one_of_many or "
    cut = [line for line in text.splitlines() if line.startswith(beginning) and line != f"$ {long}"]
    assert len(cut) == 2
    assert all(line.endswith("…   # command 1 of those in full below") and len(line) < 220 for line in cut)


def test_tables_are_markdown() -> None:
    assert list(markdown_table((("a", "b"), ("1", "2")))) == ["| a | b |", "| --- | --- |", "| 1 | 2 |"]


CLAIMS_FILE = """
from perf.claims.answers import pairs
from perf.claims.reading import MissingError, Reading, readings
from perf.claims.words import Answer, Claim, Finding, Recording


def answer(found):
    return Answer(f"{pairs(found, 'eager-fp32', 'fast')[0].ratio:.2f}×", Finding.HOLDS)


CLAIMS = [
    Claim("C10", "Ten.", "-", answer, (Recording("c10", "-m latency"),)),
    Claim("C2", "Two.", "-", answer, (Recording("c2", "-m latency"),)),
]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toyclaims").mkdir()
    (tmp_path / "toyclaims" / f"{tmp_path.name}.py").write_text(CLAIMS_FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_command_writes_the_page_and_is_strict_where_asked(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "toyclaims", raising=False)
    asked = ("report", "--claims", "--claims-from", "toyclaims")
    assert main(asked) == 0
    assert main((*asked, "--strict")) == 1
    assert capsys.readouterr().err.splitlines() == ["not answered yet: C2, C10"] * 2
    write_run(project / "docs/results/c2.json", entry(latency_s=1.0), entry(FAST, latency_s=0.25))
    assert main((*asked, "--strict")) == 0
    assert "| [C2](#c2) | - | 4.00× | a-cpu-2c | holds |" in (project / "docs/claims.md").read_text().splitlines()


def test_a_report_of_nothing_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("report",)) == 4
    assert "--claims" in capsys.readouterr().err
