"""When quantising did not pay: the table, from rows and parities made by hand."""

from __future__ import annotations

import pytest

from perf.check.parity import Parity
from perf.outcome import Row
from perf.report.quantized import Beside, quantised_table, verdict

KEY = "unet/tiny/{}/64px-b2/cpu"
INT8, EAGER, ONNX = "quant-ort-dynamic-u8", "eager-fp32", "onnx-cpu-fp32"


def row(variant: str, latency_s: float, size: int | None = None, percent: int | None = None) -> Row:
    counted = {"bytes_on_disk": size, "quantized_percent": percent}
    counters = {name: value for name, value in counted.items() if value is not None}
    notes = {} if percent is None else {"left_in_float": "first, last"}
    return Row(KEY.format(variant), {"latency_s": latency_s, "rss_peak_bytes": 3e6}, counters, notes)


def rows(*found: Row) -> dict[str, Row]:
    return {item.key: item for item in found}


def parity(ok: bool = True, task: float | None = 0.91, reason: str = "") -> Parity:
    return Parity(ok, 1e-2, 1e-6, 31.26, task, reason)


def cells(table: list[str], variant: str) -> list[str]:
    (line,) = (line for line in table if line.split()[:1] == [variant])
    return [cell for cell in line.split("  ") if cell.strip()]


def test_a_line_has_quality_size_and_both_ratios() -> None:
    """2 ms beside eager's 5 ms and ONNX Runtime's 3 ms: 2.5 and 1.5 times as fast; a quarter of the size."""
    found = rows(row(INT8, 0.002, 250_000, 83), row(EAGER, 0.005), row(ONNX, 0.003, 1_000_000))
    table = quantised_table(found, {KEY.format(INT8): parity()})
    assert table[1] == "unet tiny * 64px-b2 cpu"
    line = [cell.strip() for cell in cells(table, INT8)]
    assert line == [INT8, "31.3 dB", "0.910", "83%", "2", "250 kB", "3 MB", "2 ms", "2.50x", "1.50x", "pays"]
    assert table[-1] == "1 quantised variant of 1 paid"


@pytest.mark.parametrize(
    ("latency_s", "size", "word"),
    [
        (0.0030, 250_000, "pays"),  # as fast as float32 in ONNX Runtime, and smaller
        (0.0031, 250_000, "pays"),  # 3 % slower is within latency's budget
        (
            0.0045,
            250_000,
            "does not pay: 1.50 times as slow",
        ),  # faster than eager, but the same file in float32 is better
        (0.0020, 1_100_000, "does not pay: 1.10 times as large"),
        (0.0060, 2_000_000, "does not pay: 2.00 times as slow, 2.00 times as large"),
        (0.0030, 1_000_000, "does not pay: neither faster nor smaller"),
        (0.0020, 1_000_000, "pays"),
    ],
)
def test_the_word_is_against_the_faster_float32_and_its_file(latency_s: float, size: int, word: str) -> None:
    beside = Beside(row(EAGER, 0.005), row(ONNX, 0.003, 1_000_000))
    assert verdict(parity(), row(INT8, latency_s, size), beside) == word


def test_without_the_onnx_file_speed_alone_decides() -> None:
    beside = Beside(row(EAGER, 0.005), None)
    assert verdict(parity(), row(INT8, 0.004, 250_000), beside) == "pays"
    assert verdict(parity(), row(INT8, 0.005, 250_000), beside) == "does not pay: neither faster nor smaller"


def test_without_any_float32_nothing_is_said() -> None:
    assert verdict(parity(), row(INT8, 0.004), Beside(None, None)) == "no float32 beside it: run eager-fp32 too"


def test_below_the_floor_has_its_reason_and_no_row() -> None:
    wrong = parity(ok=False, task=None, reason="SQNR 8.0 dB below the floor 15.0 dB")
    table = quantised_table(rows(row(EAGER, 0.005)), {KEY.format(INT8): wrong})
    line = [cell.strip() for cell in cells(table, INT8)]
    said = "does not pay: below the floor, SQNR 8.0 dB below the floor 15.0 dB"
    assert line == [INT8, "31.3 dB", *["-"] * 8, said]
    assert table[-1] == "0 quantised variants of 1 paid"


def test_a_run_of_parity_alone_shows_quality_and_claims_nothing() -> None:
    checked = {KEY.format(name): parity() for name in (INT8, "quant-ao-int8wo", EAGER)}
    table = quantised_table({}, checked)
    assert cells(table, INT8)[-1].strip() == "not timed"
    assert not any(EAGER in line.split()[:1] for line in table)
    assert table[-1] == "0 quantised variants of 0 paid; 2 not timed"


def test_shapes_and_devices_are_blocks_of_their_own() -> None:
    cuda = "unet/tiny/quant-ao-int8wo/96px-b2/cuda"
    checked = {KEY.format(INT8): parity(), cuda: parity()}
    found = rows(row(INT8, 0.002, 1), row(EAGER, 0.005)) | {cuda: Row(cuda, {"latency_s": 0.002})}
    table = quantised_table(found, checked)
    assert [line for line in table if "*" in line] == ["unet tiny * 64px-b2 cpu", "unet tiny * 96px-b2 cuda"]
    assert cells(table, "quant-ao-int8wo")[-1].strip() == "no float32 beside it: run eager-fp32 too"


def test_nothing_quantised_is_no_table() -> None:
    assert quantised_table(rows(row(EAGER, 0.005)), {KEY.format(EAGER): parity()}) == []
