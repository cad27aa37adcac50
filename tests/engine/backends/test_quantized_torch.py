"""torchao's quantised layers: errors derived by hand, which layers it took, and what it must leave alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor, nn

from perf.backends.quantized_torch import SCHEMES, is_quantized, layers_that_run, quantize, saved_bytes
from perf.catalogue import discover
from perf.contract import Inputs, Shape
from perf.errors import UnsupportedError
from perf.variants.quantized import float8_card, float8_weights
from tests.engine.onnx_toys import blueprint, rows, seeded

VARIANTS = discover([], [], Path(__file__).parents[3]).variants


class Grid(nn.Module):
    """y = x Wᵀ, W = [[127.5, 100.4, 1], [255, -50.6, 0]] / 127.5."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2, bias=False)
        self.layer.weight.data = torch.tensor([[127.5, 100.4, 1], [255, -50.6, 0]]) / 127.5

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y


class Mixed(nn.Module):
    """Six linear layers, of which five run, from the last to the first, and one convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv1d(1, 1, 1)
        self.idle = nn.Linear(8, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.mix(x[:, None]).squeeze(1)
        for layer in reversed(self.layers):
            x = layer(x).relu()
        return x


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin()


def unit_rows(shape: Shape, seed: int) -> Inputs:
    return {"x": torch.eye(3)}


def test_rounding_is_by_rows_in_steps_of_half_the_range(tmp_path: Path) -> None:
    """A row's step is its largest weight / 127.5: 1/127.5 and 2/127.5. Row 0: 127.5 → 127 (the most 8 bits hold),
    100.4 → 100, 1 → 1. Row 1: 127.5 → 127, -25.3 → -25, 0 → 0. The rows of x = 1 give the columns of W.
    """
    plan = blueprint(tmp_path, Grid, inputs=unit_rows)
    runner = VARIANTS["quant-ao-int8wo"].build(plan)
    (y,) = runner.outputs(runner.run(runner.prepare(plan.example(0))))
    torch.testing.assert_close(y * 127.5, torch.tensor([[127.0, 254], [100, -50], [1, 0]]), rtol=0, atol=1e-4)


def test_float8_weights_are_rounded_to_four_bits_by_rows(tmp_path: Path) -> None:
    """A row's largest weight is 448, the most that e4m3 holds. Row 0: 448, 352.8 → 352 (steps of 32 there), 3.51 → 3.5
    (of 0.25). Row 1: 448, -88.9 → -88 (of 8), 0; its unit is twice row 0's.
    """
    plan = blueprint(tmp_path, Grid, inputs=unit_rows)
    runner = VARIANTS["quant-ao-fp8wo"].build(plan)
    (y,) = runner.outputs(runner.run(runner.prepare(plan.example(0))))
    torch.testing.assert_close(y * 448, torch.tensor([[448.0, 896], [352, -176], [3.5, 0]]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["quant-ao-int8wo", "quant-ao-int8dyn"])
def test_what_runs_is_quantised_but_for_the_sensitive(tmp_path: Path, name: str) -> None:
    """Layers 4 and 0 run first and last: three of six linear layers and a convolution are quantised, 42 %."""
    plan = blueprint(tmp_path, Mixed)
    runner = VARIANTS[name].build(plan)
    (y,) = runner.outputs(runner.run(runner.prepare(plan.example(0))))
    exact = seeded(Mixed)(plan.example(0)["x"])
    assert 0 < (y - exact).norm() / exact.norm() < 0.02
    assert runner.counters()["quantized_nodes"] == 3
    assert runner.counters()["quantized_percent"] == 42
    assert runner.notes()["left_in_float"] == "layers.4, layers.0"
    runner.close()


@pytest.mark.parametrize("chosen", [[], ["layers.1", "layers.2"]])
def test_the_size_is_what_is_written(chosen: list[str]) -> None:
    module, written = seeded(Mixed), io.BytesIO()
    quantize(module, chosen, SCHEMES["int8wo"].config("cpu"))
    torch.save(module.state_dict(), written)
    assert saved_bytes(module) == len(written.getvalue())


def test_int8_makes_a_large_layer_a_quarter_as_large() -> None:
    module = nn.Sequential(nn.Linear(512, 512, bias=False)).requires_grad_(False)
    before = saved_bytes(module)
    quantize(module, ["0"], SCHEMES["int8wo"].config("cpu"))
    assert saved_bytes(module) / before == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("scheme", ["int8wo", "int8dyn", "fp8wo"])
def test_the_settings_of_all_other_variants_are_left_alone(scheme: str) -> None:
    """By default torchao sets Inductor's options and lets float32 products be TF32."""
    before = torch._inductor.config.save_config_portable(), torch.get_float32_matmul_precision()
    quantize(seeded(Mixed), ["layers.0"], SCHEMES[scheme].config("cpu"))
    assert (torch._inductor.config.save_config_portable(), torch.get_float32_matmul_precision()) == before


def test_nothing_to_quantise_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"no nn\.Linear in this core: nothing for torchao to quantise"):
        VARIANTS["quant-ao-int8wo"].build(blueprint(tmp_path, Sine))


def test_layers_that_torchao_passes_over_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perf.backends.quantized_torch.quantization.quantize_", lambda *args, **options: None)
    with pytest.raises(UnsupportedError, match="torchao's int8wo takes none of this core's 5 linear layers"):
        VARIANTS["quant-ao-int8wo"].build(blueprint(tmp_path, Mixed))


def test_layers_come_in_the_order_in_which_they_run() -> None:
    assert list(layers_that_run(seeded(Mixed), rows(Shape("b3", {"batch": 3}), 0)).items()) == [
        (f"layers.{n}", 3) for n in (4, 3, 2, 1, 0)
    ]


@pytest.mark.parametrize("vnni", [False, True])
def test_dynamic_int8_on_a_cpu_without_vnni_has_a_reduced_range(monkeypatch: pytest.MonkeyPatch, vnni: bool) -> None:
    found: dict[str, Any] = {"architecture": "x86_64", "avx512_vnni": vnni}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    assert SCHEMES["int8dyn"].config("cpu").reduce_range is not vnni
    assert SCHEMES["int8dyn"].config("cuda").reduce_range is False


@pytest.mark.parametrize(("capability", "met"), [((8, 6), False), ((8, 9), True), ((9, 0), True)])
def test_float8_needs_a_card_that_has_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], met: bool
) -> None:
    assert "need a CUDA device" in str(float8_card("cpu"))
    assert float8_weights("cpu") is None  # read as another dtype
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    why = None if met else "compute capability 8.6: float8 needs 8.9"
    assert float8_card("cuda") == float8_weights("cuda") == why


class Shared(nn.Module):
    """One layer, called with six rows, and then by keyword with two."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(input=self.layer(x)[0])
        return y


def test_the_fewest_rows_of_a_layer_count() -> None:
    assert layers_that_run(Shared(), {"x": torch.ones(3, 2, 4)}) == {"layer": 2}


def test_layers_that_would_be_read_beyond_their_rows_stay_in_float() -> None:
    """Inner widths of 32 and 24: the second is no multiple of 16. It matters on a CPU, compiled."""
    fits = SCHEMES["int8wo"].fits
    assert [fits(nn.Linear(width, 8), 1, "cpu", True) for width in (32, 24)] == [True, False]
    assert fits(nn.Linear(24, 8), 1, "cpu", False)
    assert fits(nn.Linear(24, 8), 1, "cuda", True)
    module = nn.Sequential(nn.Linear(32, 24), nn.Linear(24, 32))
    assert "1" in quantize(module, ["0", "1"], SCHEMES["int8wo"].config("cpu"), ("1",))
    assert not is_quantized(module[1])


@pytest.mark.parametrize(
    ("inner", "outer", "rows", "fit"),
    [(32, 64, 17, True), (32, 64, 16, False), (28, 64, 17, False), (32, 60, 17, False)],
)
def test_dynamic_int8_on_a_gpu_has_few_kernels(inner: int, outer: int, rows: int, fit: bool) -> None:
    assert SCHEMES["int8dyn"].fits(nn.Linear(inner, outer), rows, "cuda", True) is fit
    assert SCHEMES["int8dyn"].fits(nn.Linear(32, 60), 1, "cpu", True)
