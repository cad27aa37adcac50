"""The table of cases and the lines under it, from rows and verdicts made by hand."""

from __future__ import annotations

from perf.outcome import SINCE, Row, Verdict, Word
from perf.report.cases import case_table
from perf.report.grouped import SHOWN, one_by_one

KEY = "toy/tiny/{}/b5/cpu"


def verdicts(word: Word, count: int) -> list[Verdict]:
    return [Verdict(KEY.format(f"v{i:02}"), "latency_s", word, 1.2, 1.0, 0.05, f"why {i}") for i in range(count)]


def lines(word: Word, count: int) -> list[str]:
    return [line for line in case_table({}, verdicts(word, count), {}) if line.startswith(f"{word}: ")]


def test_what_fails_is_told_case_by_case() -> None:
    assert len(lines(Word.REGRESSED, SHOWN + 9)) == SHOWN + 9


def test_of_what_does_not_fail_a_dozen_reasons_are_told_and_the_rest_counted() -> None:
    found = lines(Word.INCONCLUSIVE, SHOWN + 9)
    assert len(found) == SHOWN + 1
    assert found[0] == f"inconclusive: {KEY.format('v00')}: latency_s: why 0"
    assert found[-1] == "inconclusive: 9 more"


def test_a_report_tells_all_of_them() -> None:
    table = case_table({}, verdicts(Word.INCONCLUSIVE, SHOWN + 9), {}, one_by_one)
    assert len([line for line in table if line.startswith("inconclusive: ")]) == SHOWN + 9


def test_two_hundred_cases_of_which_half_are_inconclusive_are_two_lines_below_the_table() -> None:
    """Ratios from -3.0 to +9.8 %, visible changes from 20 to 69.5 %, over two metrics."""
    noisy = [
        Verdict(
            KEY.format(f"v{i:03}"),
            "latency_s" if i % 2 else "cpu_s",
            Word.INCONCLUSIVE,
            note=f"{i / 10 - 0.1 - (2.9 if i == 0 else 0):+.1f}%; too noisy for a budget of 5.0%: "
            f"+{20 + i / 2:.1f}% would be seen 8 times in 10; {SINCE}cpu_s +{i}.0%; torch 2.13.0 → 2.14.1",
        )
        for i in range(100)
    ]
    same = [Verdict(KEY.format(f"s{i:03}"), "latency_s", Word.SAME, 1.0, 1.0) for i in range(100)]
    table = case_table({}, [*same, *noisy], {})
    below = table[table.index("100 same, 100 inconclusive") + 1 :]
    assert below == [
        "inconclusive: 100 of cpu_s, latency_s: -3.0 … +9.8%; too noisy for a budget of 5.0%: +20.0 … +69.5% would be "
        f"seen 8 times in 10; {SINCE}torch 2.13.0 → 2.14.1  "
        f"[{KEY.format('v000')}, {KEY.format('v001')}, {KEY.format('v002')} and 97 more]",
        "all of them one by one: --report FILE.md",
    ]


def test_busy_time_and_peak_are_the_first_that_a_row_has() -> None:
    gpu = Row(KEY.format("eager-fp32"), {"latency_s": 0.01, "device_s": 0.004, "cpu_s": 0.009, "peak_bytes": 2.5e6})
    cpu = Row(KEY.format("aot_eager"), {"latency_s": 0.02, "cpu_s": 0.015, "rss_peak_bytes": 3e9})
    table = case_table({row.key: row for row in (gpu, cpu)}, [], {})
    assert [line.split()[3:10] for line in table[2:4]] == [
        ["10", "ms", "-", "4", "ms", "2.5", "MB"],
        ["20", "ms", "-", "15", "ms", "3", "GB"],
    ]
    assert "0.50x" in table[3]
