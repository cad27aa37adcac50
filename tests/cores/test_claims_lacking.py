"""A row that lacks what an answer needs is left out by name, and the answer is that of the other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from perf.claims.reading import MissingError, Reading
from perf.claims.words import Answer, Proof
from perf.outcome import Row
from tests.cores.claim_answers import CLAIMS, answer, start
from tests.engine.claim_toys import reading, record, row

ALONE = {"library_import_s": 0.5, "session_load_s": 1.5}
LEVELS = {f"nodes_at_{level}": 90 for level in ("disable", "basic", "extended", "all")}
STARTS = (start("eager-fp32", 1.0, 1.0), start("inductor-default", 11.0, 0.5))
LOADED = (STARTS[0], replace(start("onnx-cpu-fp32", 2.0, 1.0), metrics={**STARTS[0].metrics, **ALONE}))
WAYS = tuple(
    row(f"flux-clip/tiny/{name}/s/cpu", taken_s, {"sampling": "±0.4% of 87 samples"})
    for name, taken_s in (("inductor-default", 1.0), ("inductor-option-x", 1.5))
)
FORMATS = tuple(row(f"unet/tiny/eager-fp32/s/cpu#load{end}", load_s=0.25) for end in (".pt", ".safetensors"))
EXPORTED = (row("placement:unet/tiny/onnx-cpu-fp32/s/cpu", opset=20, onnx_nodes=100, **LEVELS),)
ERRORS = tuple(
    row(f"unet/tiny/onnx-cpu-{name}/s/cpu", 1.0, {"parity": said})
    for name, said in (("fp32", "1e-6"), ("fp16", "2e-3"))
)
REQUEST = (
    row(
        "unet/tiny/inductor-default/s/cpu#warmup",
        notes={"mismatched_shape": "u"},
        graphs_mismatched=1,
        graphs_matched=0,
        mismatched_first_s=9.0,
        matched_first_s=1.0,
        matched_later_s=0.5,
    ),
)
TRACES = tuple(
    row(f"flux-transformer/full/{name}/s/cuda", 0.2, kernels=kernels, device_s=0.1)
    for name, kernels in (("eager-bf16", 1000), ("inductor-default-bf16", 250))
)
SMALL = tuple(
    row(f"unet/tiny/{name}/s/cpu", 1.0, {"parity": "20.0 ≥ 12.0 dB"}, bytes_on_disk=size)
    for name, size in (("quant-ort-dynamic-u8", 100), ("onnx-cpu-fp32", 400))
)
LACKING = [
    ("C2", STARTS, 0, "cold_s"),
    ("C2", STARTS, 0, "later_call_s"),
    ("C2", STARTS, 1, "warm_s"),
    ("C2", STARTS, 1, "later_call_s"),
    ("C4", FORMATS, 0, "load_s"),
    ("C6", EXPORTED, 0, "opset"),
    ("C9", ERRORS, 0, "parity"),
    ("C9", ERRORS, 1, "parity"),
    ("C10", LOADED, 0, "warm_s"),
    ("C10", LOADED, 1, "session_load_s"),
    ("C13", REQUEST, 0, "graphs_matched"),
    ("C13", REQUEST, 0, "mismatched_shape"),
    ("C15", TRACES, 1, "kernels"),
    ("C16", EXPORTED, 0, "nodes_at_all"),
    ("C17", SMALL, 0, "bytes_on_disk"),
    ("C17", SMALL, 1, "bytes_on_disk"),
    ("C17", SMALL, 0, "parity"),
]


def without(found: Row, name: str) -> Row:
    parts = {part: dict(getattr(found, part)) for part in ("metrics", "counters", "notes")}
    assert [values.pop(name, None) for values in parts.values()] != [None] * 3
    return replace(found, **parts)


def at_another_shape(rows: Sequence[Row]) -> list[Row]:
    return [replace(each, key=each.key.replace("/s/", "/t/")) for each in rows]


@pytest.mark.parametrize(("name", "rows", "at", "lack"), LACKING, ids=[f"{c[0]}-{c[2]}-{c[3]}" for c in LACKING])
def test_a_row_without_something_is_left_out_and_named(name: str, rows: Sequence[Row], at: int, lack: str) -> None:
    device = "cuda" if name == "C15" else "cpu"
    how, broken = CLAIMS[name].answer, at_another_shape(rows)
    broken[at] = without(broken[at], lack)
    found = reading(*rows, *broken, device=device)
    assert not isinstance(how, Proof)
    assert how(found) == answer(name, rows, device)
    assert list(found.said.left_out.values()) == [f"{broken[at].key}: {lack}"]
    with pytest.raises(MissingError):
        how(reading(*broken, device=device))


SAMPLED = {"sampling": "±0.4% of 87 samples"}
THIRD = row("flux-clip/tiny/cudagraphs/s/cpu", 9.0, SAMPLED)


def c3(*runs: Sequence[Row]) -> tuple[Answer, Reading]:
    """Runs in the order in which they were made."""
    how = CLAIMS["C3"].answer
    assert not isinstance(how, Proof)
    found = Reading("a-machine", "cpu", [record(*rows, at=at) for at, rows in enumerate(runs)])
    return how(found), found


def test_c3_ways_of_one_run_are_compared_though_another_has_a_third() -> None:
    found, reading = c3(WAYS, (THIRD, WAYS[0]), (THIRD,))
    assert found == answer("C3", (THIRD, WAYS[0]))
    assert not reading.said.apart
    assert [path.stem for path in reading.used] == ["a-cpu-2c-1"]


def test_c3_ways_of_different_runs_are_compared_where_none_has_two_and_it_says_so() -> None:
    found, reading = c3(WAYS[:1], WAYS[1:], (THIRD,))
    assert found == answer("C3", (*WAYS, THIRD))
    assert list(reading.said.apart) == [tuple(sorted(each.key for each in (*WAYS, THIRD)))]


def test_c3_a_run_counts_by_what_is_whole_in_it_and_of_the_newest_work() -> None:
    """The first run has three ways of other work, the third a way that was not timed."""
    other = [replace(each, workload="other") for each in (*WAYS, THIRD)]
    found, reading = c3(other, WAYS, [without(WAYS[0], "latency_s"), THIRD])
    assert found == answer("C3", WAYS)
    assert not reading.said.apart


def test_c3_a_way_without_its_sampling_is_left_out() -> None:
    third = row("flux-clip/tiny/aot_eager/s/cpu", 9.0)
    assert answer("C3", [*WAYS, third]) == answer("C3", WAYS)


def test_c2_what_is_no_number_pays_nothing_back() -> None:
    unknown = replace(STARTS[1], notes={"later_call_s": "nan"})
    with pytest.raises(MissingError):
        answer("C2", [STARTS[0], unknown])


def test_c8_a_start_without_its_first_call_leaves_the_lengths() -> None:
    key = "sbv2-jp-enc/tiny/{}/chars-12/cpu"
    rows = [row(key.format("inductor-default"), 1.0), row(key.format("onnx-cpu-fp32"), 2.0)]
    begun = row(f"{key.format('onnx-cpu-fp32')}#coldstart", cold_s=1.0)
    assert answer("C8", [*rows, begun]) == answer("C8", rows)
