"""The claims of the sources beside made-up rows whose answer was worked out by hand; and that every command runs."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace

import pytest

from perf.catalogue import Selection, discover, expand
from perf.claims.reading import MissingError
from perf.claims.words import Claim, Finding, Proof
from perf.options import NARROWING
from perf.outcome import Row
from perf.plugin import MARKS
from perf.subjects import graph_subjects, load_subjects
from tests.cores.claim_answers import CLAIMS, ROOT, answer, graphs, start
from tests.engine.claim_toys import reading, row

CATALOGUE = discover([ROOT / "fixtures" / "cores"], [], ROOT)
RECORDS = {record.name: record for claim in CLAIMS.values() for record in claim.records}


def test_every_claim_of_the_sources_is_here_in_order() -> None:
    numbers = [name.split()[0] for name in CLAIMS]
    assert list(dict.fromkeys(numbers)) == [f"C{number}" for number in range(1, 25)]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_can_be_answered_and_is_not_without_rows(claim: Claim) -> None:
    if isinstance(claim.answer, Proof):
        assert (ROOT / claim.answer.command.removeprefix("pytest ")).is_file()
        return
    assert claim.records
    for device in ("cpu", "cuda"):
        with pytest.raises(MissingError):
            claim.answer(reading(device=device))


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_recordings_command_chooses_something_that_there_is(record: object) -> None:
    arguments = shlex.split(record.arguments)  # type: ignore[attr-defined]
    parser = argparse.ArgumentParser()
    parser.add_argument("-m")
    for option in NARROWING:
        parser.add_argument(option, action="append", default=[])
    given = parser.parse_args(arguments)
    assert given.m in MARKS
    selection = Selection(*(tuple(getattr(given, name)) for name in ("core", "variant", "preset", "shape", "device")))
    cases, skips = expand(CATALOGUE, selection)  # raises where a pattern matches no name
    assert cases or skips
    assert given.m != "graphbreaks" or graph_subjects(CATALOGUE, selection)
    assert given.m != "loading" or load_subjects(CATALOGUE, selection)


@pytest.mark.parametrize(
    ("whole_s", "finding"),
    [(2.0, Finding.HOLDS), (0.8, Finding.DEPENDS), (0.49, Finding.DEPENDS), (0.25, Finding.FAILS)],
)
def test_c1_a_pipeline_beside_its_core(whole_s: float, finding: Finding) -> None:
    key = "{}/tiny/{}/s/cpu"
    found = answer(
        "C1",
        [
            row(key.format("sbv2-pipeline", "eager-fp32"), 1.0),
            row(key.format("sbv2-pipeline", "inductor-default"), whole_s, graph_breaks=7),
            row(key.format("sbv2-jp-dec", "eager-fp32"), 1.0),
            row(key.format("sbv2-jp-dec", "inductor-default"), 0.5, graph_breaks=0),
        ],
    )
    assert found.finding is finding
    assert found.figure == f"sbv2-pipeline 7 breaks, {1 / whole_s:.2f}×; sbv2-jp-dec 0, 2.00×"


@pytest.mark.parametrize(
    ("later_s", "figure", "finding"),
    [
        (0.5, "pays back after 20 calls", Finding.HOLDS),  # 10 s later, half a second saved a call
        (1.5, "never pays back", Finding.FAILS),
        (0.96, "never pays back", Finding.FAILS),  # 4 %: another start would say otherwise
    ],
)
def test_c2_calls_until_compiling_has_paid_for_itself(later_s: float, figure: str, finding: Finding) -> None:
    found = answer("C2", [start("eager-fp32", 1.0, 1.0), start("inductor-default", 11.0, later_s)])
    assert (found.figure, found.finding) == (figure, finding)


def test_c2_is_beside_eager_in_the_same_precision() -> None:
    half = start("inductor-default-bf16", 11.0, 0.5)
    with pytest.raises(MissingError, match="starts of eager"):
        answer("C2", [start("eager-fp32", 1.0, 4.0), half])
    assert answer("C2", [start("eager-bf16", 1.0, 1.0), half]).figure == "pays back after 20 calls"


@pytest.mark.parametrize(
    ("other_s", "sampling", "finding"),
    [
        (1.02, "precise ±0.4% of 87 samples", Finding.FAILS),
        (1.001, "precise ±0.4% of 87 samples", Finding.HOLDS),
        (1.02, "time of 5 samples", Finding.HOLDS),
    ],
)
def test_c3_a_difference_beyond_what_is_resolved_is_no_longer_hidden(
    other_s: float, sampling: str, finding: Finding
) -> None:
    notes = {"sampling": sampling}
    rows = [
        row("flux-clip/tiny/inductor-default/s/cpu", 1.0, notes),
        row("flux-clip/tiny/inductor-max_autotune_no_cudagraphs/s/cpu", other_s, notes),
        row("flux-clip/tiny/inductor-default-bf16/s/cpu", 9.0, notes),  # another dtype and
        row("flux-clip/tiny/inductor-default/t/cpu", 9.0, notes),  # another shape are no other way to compile
    ]
    assert answer("C3", rows).finding is finding
    half = row("flux-clip/tiny/inductor-reduce_overhead-bf16/s/cpu", 18.0, notes)
    third = row("flux-clip/tiny/inductor-max_autotune-bf16/s/cpu", 9.0, notes)
    assert answer("C3", [*rows, half, third]).figure.startswith("3 ways lie within 100.0%")  # those of bfloat16


@pytest.mark.parametrize(("mapped_s", "finding"), [(0.125, Finding.HOLDS), (0.5, Finding.FAILS)])
def test_c4_the_same_weights_in_either_format(mapped_s: float, finding: Finding) -> None:
    key = "unet/tiny/eager-fp32/weights/cpu#load{}"
    found = answer("C4", [row(key.format(".pt"), load_s=0.25), row(key.format(".safetensors"), load_s=mapped_s)])
    assert (found.figure, found.finding) == (f".pt takes {0.25 / mapped_s:.2f}× as long", finding)


def lengths(well_s: float, *, first_s: float = 4.0) -> list[Row]:
    key = "sbv2-jp-enc/tiny/{}/chars-12/cpu"
    return [
        row(key.format("inductor-default"), 1.0),
        row(key.format("onnx-cpu-fp32"), 2.0 * well_s),
        row(key.format("onnx-cpu-fp32-fixed"), well_s),
        row(f"{key.format('onnx-cpu-fp32')}#coldstart", notes={"cold_first_call_s": str(first_s)}),
    ]


@pytest.mark.parametrize(("well_s", "wins", "finding"), [(2.0, 1, Finding.HOLDS), (0.5, 0, Finding.FAILS)])
def test_c8_ort_badly_and_well_run(well_s: float, wins: int, finding: Finding) -> None:
    found = answer("C8", lengths(well_s))
    assert found.finding is finding
    assert found.figure == f"{well_s:.2f}× beside ORT well run, wins {wins} of 1; 4.00× beside ORT badly run"
    winner = "compiled" if wins else "ONNX Runtime"
    assert found.table[1][2:4] + found.table[1][5:] == ("1 s", "4 s", "4.00×", f"{well_s:.2f}×", winner)


def test_c8_what_is_within_five_per_cent_is_won_by_neither() -> None:
    found = answer("C8", lengths(1.04, first_s=1.0))
    assert found.finding is Finding.FAILS
    assert found.because == "neither wins a length by more than 5 %"
    assert found.table[1][3] == "2.08 s"  # the file with open lengths, slower than a first call of it
    assert found.table[1][-1] == "alike"
    longer = [
        row(f"sbv2-jp-enc/tiny/{variant}/chars-34/cpu", seconds)
        for variant, seconds in (("inductor-default", 1.0), ("onnx-cpu-fp32", 3.0))
    ]
    found = answer("C8", [*lengths(1.04), *longer])
    assert (found.finding, "loses at no length" in found.because) == (Finding.DEPENDS, True)


@pytest.mark.parametrize(("longer_s", "finding"), [(3.0, Finding.HOLDS), (1.5, Finding.DEPENDS)])
def test_c8_wins_must_grow_with_the_text(longer_s: float, finding: Finding) -> None:
    longer = [
        row(f"sbv2-jp-enc/tiny/{variant}/chars-34/cpu", seconds)
        for variant, seconds in (("inductor-default", 1.0), ("onnx-cpu-fp32", longer_s))
    ]
    found = answer("C8", [*lengths(2.0), *longer])
    assert found.finding is finding
    assert ("not by more" in found.because) is (finding is Finding.DEPENDS)


def test_c8_on_a_gpu_the_fall_back_to_the_cpu_is_the_bad_run() -> None:
    key = "sbv2-jp-dec/full/{}/chars-3/{}"
    found = answer(
        "C8",
        [
            row(key.format("inductor-reduce_overhead", "cuda"), 0.5),
            row(key.format("onnx-cuda-fp32", "cuda"), 1.0),
            row(key.format("onnx-cuda-fp32-fixed-cudagraph", "cuda"), 0.25),
            row(key.format("onnx-cpu-fp32", "cpu"), 4.0),
        ],
        "cuda",
    )
    assert found.table[1] == ("sbv2-jp-dec", "chars-3", "500 ms", "4 s", "250 ms", "8.00×", "0.50×", "ONNX Runtime")


def test_c6_and_c7_files_of_the_parts_and_their_opsets() -> None:
    files = [
        row("placement:sbv2-jp-enc/tiny/onnx-cpu-fp32/s/cpu", opset=20),
        row("placement:sbv2-jp-dec/tiny/onnx-cpu-fp32-legacy/s/cpu", opset=17),
    ]
    found = answer("C6", files)
    assert (found.finding, found.figure) == (Finding.HOLDS, "2 cores exported, opset 17 to 20 in the files")
    assert answer("C6", [*files, row("placement:unet/tiny/onnx-cpu-fp32/s/cpu", opset=16)]).finding is Finding.FAILS
    assert answer("C7", [*files, graphs("sbv2-jp-netg", 3, 4)]).finding is Finding.HOLDS
    assert answer("C7", [*files, graphs("sbv2-jp-netg", 0)]).finding is Finding.FAILS


@pytest.mark.parametrize(("half", "finding"), [("2e-3", Finding.HOLDS), ("1e-7", Finding.DEPENDS)])
def test_c9_errors_by_dtype(half: str, finding: Finding) -> None:
    key = "unet/tiny/onnx-cpu-{}/s/cpu"
    rows = [
        row(key.format("fp32"), 1.0, {"parity": "1e-6 ≤ 2e-6"}),
        row(key.format("fp16"), 1.0, {"parity": f"{half} ≤ 1"}),
    ]
    assert answer("C9", rows).finding is finding


def test_c9_names_what_is_exact() -> None:
    rows = [row(f"tokens/tiny/onnx-cpu-{short}/s/cpu", 1.0, {"parity": "0.0e+00 ≤ 0"}) for short in ("fp32", "fp16")]
    found = answer("C9", rows)
    assert (found.finding, found.because) == (Finding.DEPENDS, "tokens computes with integers, and so exactly, in both")


@pytest.mark.parametrize(("session_s", "finding"), [(1.5, Finding.HOLDS), (4.5, Finding.DEPENDS)])
def test_c10_one_file_loaded_alone_beside_eagers_start(session_s: float, finding: Finding) -> None:
    """Eager is ready after 3 s of imports and half of a cold start of 4 s; ONNX Runtime imports for 0.5 s."""
    eager, exported = start("eager-fp32", 4.0, 1.0), start("onnx-cpu-fp32", 2.0, 1.0)
    alone = {"library_import_s": 0.5, "session_load_s": session_s, "rss_peak_bytes": 5e8}
    exported = replace(exported, metrics={**exported.metrics, **alone})
    late = replace(exported, key=exported.key.replace("flux-clip", "unet"))  # no eager beside it
    other = [
        replace(row, key=row.key.replace("flux-clip", "deeplabv3"), metrics={**row.metrics, "session_load_s": 1.5})
        for row in (eager, exported)
    ]
    found = answer("C10", [eager, exported, late, *other])
    assert found.finding is finding
    assert found.figure == f"{1 + (session_s < 4)} of 2 are loaded sooner than eager, 2 hold less memory"
    assert found.table[-1][1:] == ("-", f"{0.5 + session_s:g} s", "500 MB", "5 s", "1 GB")
