"""The table of cases and the lines under it, from rows and verdicts made by hand."""

from __future__ import annotations

from perf.outcome import Row, Verdict, Word
from perf.report.cases import SHOWN, case_table

KEY = "toy/tiny/{}/b5/cpu"


def verdicts(word: Word, count: int) -> list[Verdict]:
    return [Verdict(KEY.format(f"v{i:02}"), "latency_s", word, 1.2, 1.0, 0.05, f"why {i}") for i in range(count)]


def lines(word: Word, count: int) -> list[str]:
    return [line for line in case_table({}, verdicts(word, count), {}) if line.startswith(f"{word}: ")]


def test_what_fails_is_told_case_by_case() -> None:
    assert len(lines(Word.REGRESSED, SHOWN + 9)) == SHOWN + 9


def test_of_what_does_not_fail_the_first_are_told_and_the_rest_counted() -> None:
    found = lines(Word.INCONCLUSIVE, SHOWN + 9)
    assert len(found) == SHOWN + 1
    assert found[0] == f"inconclusive: {KEY.format('v00')}: why 0"
    assert found[-1] == "inconclusive: 9 more cases"


def test_busy_time_and_peak_are_the_first_that_a_row_has() -> None:
    gpu = Row(KEY.format("eager-fp32"), {"latency_s": 0.01, "device_s": 0.004, "cpu_s": 0.009, "peak_bytes": 2.5e6})
    cpu = Row(KEY.format("aot_eager"), {"latency_s": 0.02, "cpu_s": 0.015, "rss_peak_bytes": 3e9})
    table = case_table({row.key: row for row in (gpu, cpu)}, [], {})
    assert [line.split()[3:10] for line in table[2:4]] == [
        ["10", "ms", "-", "4", "ms", "2.5", "MB"],
        ["20", "ms", "-", "15", "ms", "3", "GB"],
    ]
    assert "0.50x" in table[3]
