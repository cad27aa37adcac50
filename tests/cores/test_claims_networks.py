"""The claims about image generation, ONNX deployment and LLASA beside rows whose answer was worked out by hand."""

from __future__ import annotations

import pytest

from perf.claims.words import Finding
from perf.outcome import Row
from tests.cores.claim_answers import answer, graphs
from tests.engine.claim_toys import row


@pytest.mark.parametrize(
    ("mismatched_s", "graphs_made", "finding"),
    [(9.0, 1, Finding.HOLDS), (9.0, 0, Finding.FAILS), (1.0, 1, Finding.FAILS)],
)
def test_c13_a_warm_up_helps_where_it_matches(mismatched_s: float, graphs_made: int, finding: Finding) -> None:
    found = row(
        "flux-transformer/tiny/inductor-default/80px-b2-t20/cpu#warmup",
        notes={"mismatched_shape": "112px-b5-t12"},
        mismatched_first_s=mismatched_s,
        matched_first_s=1.0,
        matched_later_s=0.5,
        graphs_mismatched=graphs_made,
        graphs_matched=0,
    )
    assert answer("C13", [found]).finding is finding


def trace(variant: str, latency_s: float, kernels: int, device_s: float, **counters: int) -> Row:
    key = f"flux-transformer/full/{variant}/s/cuda"
    return row(key, latency_s, kernels=kernels, device_s=device_s, **counters)


@pytest.mark.parametrize(
    ("latency_s", "busy", "finding"), [(0.0625, "80%", Finding.HOLDS), (0.1, "50%", Finding.DEPENDS)]
)
def test_c15_launches_mean_kernel_and_busy_share_side_by_side(latency_s: float, busy: str, finding: Finding) -> None:
    made = {"inductor_nodes": 900, "inductor_kernels": 150, "extern_calls": 100}
    eager = trace("eager-bf16", 0.2, 1000, 0.1)
    found = answer("C15", [eager, trace("inductor-default-bf16", latency_s, 250, 0.05, **made)], "cuda")
    assert [line[-2:] for line in found.table[1:]] == [("-", "-"), ("900 operations into 150 kernels", "100 calls")]
    assert found.finding is finding
    assert found.figure == f"1000 kernels of 100 µs, busy 50%; compiled 250 kernels of 200 µs, busy {busy}"
    assert ("idles less at 0 of 1 shapes" in found.because) is (finding is Finding.DEPENDS)


def test_c15_more_launches_than_eager_are_against_it() -> None:
    rows = [trace("eager-bf16", 0.2, 1000, 0.1), trace("inductor-default-bf16", 0.2, 1001, 0.15)]
    assert answer("C15", rows, "cuda").finding is Finding.FAILS


def test_c16_nodes_at_each_level() -> None:
    levels = {"nodes_at_disable": 100, "nodes_at_basic": 90, "nodes_at_extended": 80, "nodes_at_all": 75}
    found = answer("C16", [row("placement:unet/tiny/onnx-cpu-fp32/s/cpu", onnx_nodes=100, **levels)])
    assert found.finding is Finding.HOLDS
    assert found.figure == "fewer nodes at the highest level than at none in 1 of 1 files, by up to 25%"


@pytest.mark.parametrize(("half_s", "finding"), [(0.75, Finding.HOLDS), (0.95, Finding.FAILS)])
def test_c23_a_share_of_time_saved(half_s: float, finding: Finding) -> None:
    key = "llasa-decode/full/{}/s/cuda"
    found = answer("C23 bfloat16", [row(key.format("eager-fp32"), 1.0), row(key.format("eager-bf16"), half_s)], "cuda")
    assert found.finding is finding
    assert found.figure == f"{1 - half_s:.0%} shorter"


@pytest.mark.parametrize(
    ("kernels_s", "finding", "because"),
    [
        (0.1, Finding.DEPENDS, "kernels alone are 75% shorter, and eager waits for the host to launch them"),
        (0.39, Finding.FAILS, "on the core: kernels alone are 3% shorter"),
    ],
)
def test_c23_what_is_not_gained_on_a_card_is_the_hosts_where_kernels_gain(
    kernels_s: float, finding: Finding, because: str
) -> None:
    key = "llasa-decode/full/{}/s/cuda"
    single = row(key.format("eager-fp32"), 1.0, device_s=0.4)
    half = row(key.format("eager-bf16"), 1.0, device_s=kernels_s)
    found = answer("C23 bfloat16", [single, half], "cuda")
    assert (found.finding, found.because) == (finding, because)
    assert [line[-1] for line in found.table] == ["kernels alone", f"400 ms → {kernels_s * 1000:.0f} ms"]


@pytest.mark.parametrize(("loop_s", "finding"), [(2.5, Finding.HOLDS), (1.5, Finding.FAILS)])
def test_c23_the_loop_over_tokens(loop_s: float, finding: Finding) -> None:
    key = "llasa-tokens-{}/tiny/eager-fp32/tokens-250-b2/cpu"
    found = answer("C23 tokens", [row(key.format("loop"), loop_s), row(key.format("vectorised"), 1.0)])
    assert (found.finding, found.figure) == (finding, f"the loop takes {loop_s:.2f}× as long")


@pytest.mark.parametrize(("breaks", "finding"), [(0, Finding.HOLDS), (1, Finding.FAILS)])
def test_c11_the_transformer_is_one_graph(breaks: int, finding: Finding) -> None:
    assert answer("C11", [graphs("flux-transformer", breaks)]).finding is finding


@pytest.mark.parametrize(("clip_s", "finding"), [(0.5, Finding.HOLDS), (0.1, Finding.DEPENDS)])
def test_c14_what_else_is_compiled_beside_a_picture_of_50_steps(clip_s: float, finding: Finding) -> None:
    """The picture takes 50 × 0.2 = 10 s; CLIP saves 0.5 − 0.5 or 0.5 − 0.1 = 0.4 s of it."""
    key = "{}/full/{}/s/cuda"
    rows = [
        row(key.format(core, variant), value)
        for core, values in {
            "flux-transformer": {"inductor-default-bf16": 0.2, "inductor-reduce_overhead-bf16": 0.199},
            "flux-vae-decode": {"eager-bf16": 0.25, "inductor-default-bf16": 0.25},
            "flux-t5": {"eager-bf16": 0.25, "inductor-default-bf16": 0.25},
            "flux-clip": {"eager-bf16": 0.5, "inductor-default-bf16": clip_s},
        }.items()
        for variant, value in values.items()
    ]
    found = answer("C14", rows, "cuda")
    assert (found.finding, found.table[3][-1]) == (finding, f"{(0.5 - clip_s) / 10:.2%}")


SMALL = "quant-ort-dynamic-u8"


@pytest.mark.parametrize(
    ("small_s", "bytes_on_disk", "finding"),
    [(0.5, 25, Finding.HOLDS), (2.0, 25, Finding.FAILS), (0.5, 200, Finding.FAILS)],
)
def test_c17_8_bits_pay_where_they_are_smaller_and_no_slower(
    small_s: float, bytes_on_disk: int, finding: Finding
) -> None:
    key = "unet/tiny/{}/s/cpu"
    rows = [
        row(key.format("onnx-cpu-fp32"), 1.0, bytes_on_disk=100),
        row(key.format(SMALL), small_s, {"parity": "20.0 ≥ 15.0 dB"}, bytes_on_disk=bytes_on_disk),
    ]
    assert answer("C17", rows).finding is finding


def test_c17_memory_is_of_processes_that_were_started() -> None:
    key = "unet/tiny/{}/s/cpu"
    rows = [
        row(key.format("onnx-cpu-fp32"), 1.0, bytes_on_disk=100),
        row(key.format(SMALL), 0.5, {"parity": "20.0 ≥ 15.0 dB"}, bytes_on_disk=50),
    ]
    started = Row(f"{key.format(SMALL)}#coldstart", {"rss_peak_bytes": 5e8})
    assert answer("C17", [*rows, started]).table[1][5:7] == ("500 MB", "-")


@pytest.mark.parametrize(
    ("times", "finding"),
    [((0.5, 0.5), Finding.HOLDS), ((0.5, 1.0), Finding.DEPENDS), ((1.0, 0.98), Finding.FAILS)],
)
def test_c18_fixed_beside_open_shapes(times: tuple[float, float], finding: Finding) -> None:
    rows = [row(f"{core}/tiny/onnx-cpu-fp32/s/cpu", 1.0) for core in ("unet", "vits-enc")]
    rows += [row(f"{c}/tiny/onnx-cpu-fp32-fixed/s/cpu", s) for c, s in zip(("unet", "vits-enc"), times, strict=True)]
    assert answer("C18", rows).finding is finding


@pytest.mark.parametrize(("strays", "finding"), [(0, Finding.HOLDS), (3, Finding.DEPENDS)])
def test_c19_nodes_on_each_provider(strays: int, finding: Finding) -> None:
    key = "placement:unet/full/onnx-cuda-fp32/s/cuda"
    found = answer("C19", [row(key, notes={"providers": "CUDA"}, nodes_on_CUDA=9, nodes_on_CPU=strays)], "cuda")
    assert (found.finding, found.table[1][1:5]) == (finding, ("CUDA", "-", "9", str(strays)))


@pytest.mark.parametrize(("taken_s", "finding"), [(0.5, Finding.HOLDS), (1.02, Finding.DEPENDS)])
def test_c20_options_that_move_latency(taken_s: float, finding: Finding) -> None:
    rows = [row("unet/tiny/onnx-cpu-fp32/s/cpu", 1.0), row("unet/tiny/onnx-cpu-fp32-1thread/s/cpu", taken_s)]
    assert answer("C20", rows).finding is finding


@pytest.mark.parametrize(("eager_s", "finding"), [(2.0, Finding.HOLDS), (0.25, Finding.DEPENDS)])
def test_c22_the_fastest_form_of_a_segmentation(eager_s: float, finding: Finding) -> None:
    key = "unet/tiny/{}/s/cpu"
    times = {"eager-fp32": eager_s, "onnx-cpu-fp32": 1.0, "onnx-cpu-fp32-o0": 1.5, SMALL: 0.5}
    found = answer("C22", [row(key.format(variant), value) for variant, value in times.items()])
    assert found.finding is finding
    assert found.table[1][2:5] == ("1.5 s", "1 s", "500 ms")


def test_c23_reduce_overhead_and_c24_the_whole_call() -> None:
    key = "llasa-decode/full/{}/s/cuda"
    rows = [row(key.format("eager-bf16"), 1.0), row(key.format("inductor-reduce_overhead-bf16"), 0.25)]
    found = answer("C23 reduce-overhead", rows, "cuda")
    assert (found.finding, found.because, found.figure) == (Finding.HOLDS, "more than claimed", "75% shorter")
    whole = answer("C24", [row("llasa-speak/tiny/eager-fp32/chars-12/cpu", 2.0)])
    assert whole.figure == "2 s for chars-12, eager-fp32, all four parts in the time"
