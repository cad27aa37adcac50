"""The roofline: counts by hand on layers of a few numbers, limits by hand from made-up ceilings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from perf.catalogue import Catalogue, discover
from perf.contract import Case, Core, Cost, Preset, Shape, Variant, Work
from perf.measure.ceilings import OF_8_BITS, PRODUCTS, fastest_s, measure_ceilings
from perf.measure.controls import ControlSizes, ControlWatch
from perf.measure.cost import count
from perf.measure.limit import Forms, forms, limit_s, moved_bytes
from perf.outcome import Row
from perf.report.cases import case_table
from perf.runners import ModuleRunner
from perf.variants import eager, quantized
from perf.workbench import Workbench

HALF = Forms("bfloat16", 2, 2)


class Tied(nn.Module):
    """A table of 7 rows of 4 that is looked up, and is the last layer's weight as well where it is `tied`."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.unread = nn.Linear(50, 50)
        self.last = nn.Linear(4, 7, bias=False)
        if tied:
            self.last.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self.last(self.table(ids))
        return found


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_product_counts_twice_its_multiply_adds_and_each_number_once(device: str) -> None:
    cost = count(nn.Linear(5, 3).to(device), {"input": torch.zeros(2, 5, device=device)})
    assert cost == Cost(flops=2 * 2 * 5 * 3, weights=5 * 3 + 3, values=2 * 5 + 2 * 3)


def test_a_convolution_counts_its_multiply_adds_too() -> None:
    cost = count(nn.Conv2d(3, 4, 3, padding=1, bias=False), {"input": torch.zeros(1, 3, 8, 8)})
    assert cost.flops == 2 * 3 * 4 * 9 * 64


@pytest.mark.parametrize(("tied", "weights"), [(False, 2 * 4 + 7 * 4), (True, 7 * 4)])
def test_a_table_is_read_by_the_row_unless_a_layer_reads_it_whole(tied: bool, weights: int) -> None:
    cost = count(Tied(tied), {"ids": torch.tensor([1, 2])})
    assert (cost.weights, cost.values, cost.integer_bytes) == (weights, 2 * 7, 2 * 8)


def test_of_a_table_no_more_is_read_than_it_has() -> None:
    assert count(nn.Embedding(3, 2), {"input": torch.zeros(100, dtype=torch.int64)}).weights == 6


def test_the_slower_of_arithmetic_and_memory_is_the_limit() -> None:
    cost = Cost(flops=100.0, weights=10.0, values=5.0, integer_bytes=8.0)
    assert moved_bytes(cost, HALF) == 2 * 10 + 2 * 5 + 8
    assert limit_s(cost, HALF, {"bfloat16": 50.0, "copy": 38.0}) == 2.0
    assert limit_s(cost, HALF, {"bfloat16": 50.0, "copy": 9.5}) == 4.0


@pytest.mark.parametrize("ceilings", [{}, {"copy": 1.0}, {"bfloat16": 1.0}, {"float16": 1.0, "copy": 1.0}])
def test_without_a_ceiling_that_it_takes_no_limit_is_known(ceilings: dict[str, float]) -> None:
    assert limit_s(Cost(flops=1.0, weights=1.0), HALF, ceilings) is None


def test_what_multiplies_nothing_needs_the_copy_alone() -> None:
    assert limit_s(Cost(integer_bytes=16.0), HALF, {"copy": 8.0}) == 2.0
    assert limit_s(Cost(), HALF, {"copy": 8.0}) is None


def named(name: str) -> Variant:
    return next(item for item in (*eager.VARIANTS, *quantized.VARIANTS) if item.name == name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eager-fp32", Forms("float32", 4, 4)),
        ("eager-tf32", Forms("tf32", 4, 4)),
        ("eager-bf16", Forms("bfloat16", 2, 2)),
        ("quant-ao-int8wo-inductor", Forms("bfloat16", 1, 2)),
        ("quant-ao-int8dyn-inductor", Forms("int8", 1, 2)),
        ("quant-ort-cuda-static-qdq-s8s8", Forms("int8", 1, 4)),
        ("quant-ao-fp8-regional", Forms("float8_e4m3fn", 1, 2)),
        ("quant-ao-fp8wo-inductor", Forms("bfloat16", 1, 2)),
    ],
)
def test_a_variant_says_what_it_multiplies_in_and_how_wide_its_weights_are(name: str, expected: Forms) -> None:
    assert forms(named(name)) == expected


class Ticks:
    """Each reading is a quarter of a second after the last: a call takes exactly that."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


@pytest.mark.parametrize(("max_s", "side"), [(16.0, 8), (15.9, 2)])
def test_ceilings_are_work_over_the_time_of_a_call(max_s: float, side: int) -> None:
    """A product of a quarter of the side takes 0.25 s, and so one of the whole is taken to need 64 times as long."""
    sizes = ControlSizes(matmul=8, dtype=torch.float32, copy_bytes=64)
    found = measure_ceilings("cpu", sizes, Ticks(), max_s=max_s)
    assert found == dict.fromkeys(("float32", "bfloat16", "float16"), 2 * side**3 / 0.25) | {"copy": 2 * 64 / 0.25}


def test_whatever_a_variant_multiplies_in_on_a_gpu_has_a_ceiling() -> None:
    ours = discover((), (), Path()).variants.values()
    assert {forms(variant).products for variant in ours if "cuda" in variant.devices} <= set(PRODUCTS["cuda"])


@pytest.mark.parametrize("name", sorted(OF_8_BITS))
def test_products_of_8_bits_are_of_whole_matrices(name: str) -> None:
    product = OF_8_BITS[name]("cpu", 32)()
    assert isinstance(product, torch.Tensor)
    assert product.shape == (32, 32)
    assert torch.unique(product).numel() > 32


def test_the_fastest_call_counts_and_the_first_does_not() -> None:
    readings = iter([0.0, 0.0, 0.1, 1.0, 4.0, 5.0, 7.0, 8.0, 11.0, 99.0])  # begun; calls of 0.1, 3, 2, 3 s; over
    assert fastest_s(lambda: None, "cpu", lambda: next(readings), 0.1) == 2.0


def test_a_run_surveys_its_ceilings_once_and_only_where_controls_are_wanted() -> None:
    asked: list[str] = []

    def survey(device: str) -> dict[str, float]:
        asked.append(device)
        return {"copy": 7.0}

    watch = ControlWatch(wanted=True, measure=lambda device: {"copy": 1.0}, survey=survey)
    assert watch.ceilings == {}
    watch.start("cpu")
    watch.start("cpu")
    assert (watch.ceilings, asked) == ({"copy": 7.0}, ["cpu"])
    off = ControlWatch(measure=lambda device: {}, survey=survey)
    off.start("cpu")
    assert (off.ceilings, asked) == ({}, ["cpu"])


def bench(module: type[nn.Module], **fields: Any) -> Workbench:
    preset = Preset(lambda: module(5, 3), lambda shape, seed: {"input": torch.zeros(2, 5)}, (Shape("s", {}),))
    stated = Work("rows", 2, fields.pop("cost", None))
    core = Core("toy", "s", "here", {"tiny": preset}, ("y",), lambda shape: stated, **fields)
    variant = Variant("eager-fp32", lambda plan: ModuleRunner(lambda: None, "float32", "cpu"))
    return Workbench(Catalogue({"toy": core}, {variant.name: variant}), 0, Path(), Path())


class Reader(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * input.sum().item()


CASE = Case("toy", "tiny", "eager-fp32", "s", "cpu")
STATED = Cost(flops=7.0)


def test_a_pure_core_is_counted_an_impure_one_believed() -> None:
    counted = Cost(flops=2 * 2 * 5 * 3, weights=18, values=16)
    assert bench(nn.Linear).cost(CASE) == counted
    assert bench(nn.Linear, impure="why").cost(CASE) is None
    assert bench(nn.Linear, impure="why", cost=STATED).cost(CASE) == STATED


def test_a_core_that_reads_values_has_no_count() -> None:
    assert bench(Reader).cost(CASE) is None


def row(variant: str, limit_s: str = "", **metrics: float) -> Row:
    return Row(f"c/tiny/{variant}/s/cuda", metrics, notes={"limit_s": limit_s} if limit_s else {})


def test_the_table_has_the_share_of_kernel_time_or_of_latency_and_only_where_it_is_known() -> None:
    on_gpu = row("eager-fp32", "2e-3", latency_s=0.04, device_s=0.008)
    branches = row("inductor", "2e-3", latency_s=0.008, device_s=0.005)
    on_cpu, unknown = row("eager-bf16", "2e-3", latency_s=0.04), row("aot_eager", latency_s=0.04)
    table = case_table({found.key: found for found in (on_gpu, on_cpu, unknown, branches)}, [], {})
    assert "of limit" in table[0]
    at = table[0].index("of limit")
    assert [line[at : at + 3].strip() for line in table[2:6]] == ["25%", "5%", "-", "40%"]
    assert "of limit" not in case_table({unknown.key: unknown}, [], {})[0]
