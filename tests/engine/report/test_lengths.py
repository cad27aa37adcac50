"""The table over shapes, on times chosen by hand."""

from __future__ import annotations

from perf.outcome import Row
from perf.report.lengths import lengths_table

ORDER = {("tts", "tiny"): ["short", "long"]}
FAMILIES = {"eager-fp32": "eager", "inductor-default": "compiled", "onnx-cpu-fp32": "onnx"}


def rows(**times: tuple[float, ...]) -> dict[str, Row]:
    """Seconds by shape, one a variant in the order of `FAMILIES`, as far as they go."""
    found = {}
    for shape, values in times.items():
        for name, value in zip(FAMILIES, values, strict=False):
            found[f"tts/tiny/{name}/{shape}/cpu"] = value
    return {key: Row(key, {"latency_s": value}) for key, value in found.items()}


def table(found: dict[str, Row]) -> list[str]:
    return lengths_table(found, ORDER, FAMILIES)


def test_times_ratio_winner_and_win_rate() -> None:
    """ORT takes 4 and 1 times what inductor takes: geometric mean 2; inductor is fastest at `short` and ties at
    `long`.
    """
    lines = table(rows(long=(8.0, 2.0, 2.0), short=(0.4, 0.1, 0.4)))
    assert [line.split() for line in lines[2:5]] == [
        ["short", "400", "ms", "100", "ms", "400", "ms", "4.00", "inductor-default"],
        ["long", "8", "s", "2", "s", "2", "s", "1.00", "inductor-default"],
        ["wins", "0", "of", "2", "2", "of", "2", "0", "of", "2"],
    ]
    assert lines[5:] == [
        "compile : ORT 2.00 in the geometric mean; compile wins 1 of 2 (50%)",
        "recommended: inductor-default, the fastest at every shape",
    ]


def test_where_two_variants_win_the_one_that_is_never_far_behind_is_recommended() -> None:
    lines = table(rows(short=(1.0, 0.5, 0.45), long=(8.0, 2.0, 4.0)))
    assert lines[-1] == (
        "recommended: inductor-default, at most 1.11 times the fastest; faster at short: onnx-cpu-fp32"
    )


def test_without_a_compiled_variant_there_is_no_ratio() -> None:
    found = rows(short=(1.0, 9.0, 0.5), long=(8.0, 9.0, 4.0))
    pair = {key: row for key, row in found.items() if "inductor" not in key}
    assert "compile : ORT" in "\n".join(table(found))
    assert "compile : ORT" not in "\n".join(table(pair))


def test_a_variant_that_lacks_a_shape_is_left_out() -> None:
    found = rows(short=(1.0, 0.1, 0.5), long=(8.0, 1.0))
    assert "onnx-cpu-fp32" not in "\n".join(table(found))


def test_one_shape_or_one_variant_is_no_table() -> None:
    assert table(rows(short=(1.0, 0.1, 0.5))) == []
    assert table(rows(short=(1.0,), long=(2.0,))) == []
