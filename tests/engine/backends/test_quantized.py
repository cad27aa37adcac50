"""ONNX Runtime's quantisers: errors derived by hand, recipes as data, a changed share of integers caught by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from onnxruntime import quantization
from torch import Tensor, nn

from perf.backends import quantized_onnx
from perf.backends.onnx_profile import Node
from perf.backends.onnx_spec import CUDA, SessionSpec
from perf.backends.quantized_onnx import QuantizedFile, QuantizedRunner, quantize, quantized_percent
from perf.backends.quantized_spec import CALIBRATION_SEEDS, Recipe, describe_int8, no_saturation, saturates, sensitive
from perf.catalogue import discover
from perf.check import parity
from perf.contract import Blueprint, Inputs, Shape
from perf.errors import UnsupportedError
from perf.judge import counters
from perf.outcome import Word
from tests.engine.onnx_toys import blueprint, rows, seeded

VARIANTS = discover([], [], Path(__file__).parents[3]).variants
STATIC = [name for name in VARIANTS if name.startswith("quant-ort-static")]
DYNAMIC = Recipe(static=False, weight="QUInt8")
AVX2 = {"architecture": "x86_64", "avx2": True}


class Grid(nn.Module):
    """y = x Wᵀ, W = [[255, 100.4, 0], [51, 0, 102]] / 255."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2, bias=False)
        self.layer.weight.data = torch.tensor([[255, 100.4, 0], [51, 0, 102]]) / 255

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y


class Deep(nn.Module):
    """Five layers, a Relu between each two."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 24), *(nn.Linear(24, 24) for _ in range(3)), nn.Linear(24, 4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        y: Tensor = self.layers[-1](x)
        return y


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin()


def grid_rows(shape: Shape, seed: int) -> Inputs:
    """On the grid of 8 bits over [0, 1], whatever the seed."""
    return {"x": torch.tensor([[0, 51, 255], [102, 0, 51], [255, 255, 0]]) / 255}


def grid(cache: Path) -> Blueprint:
    return blueprint(cache, Grid, inputs=grid_rows, shapes=(Shape("b3", {"batch": 3}),))


def outputs(plan: Blueprint, recipe: Recipe) -> tuple[QuantizedRunner, Tensor]:
    runner = QuantizedRunner(quantize(plan, recipe), SessionSpec(), recipe, plan.example(0))
    (y,) = runner.outputs(runner.run(runner.prepare(plan.example(0))))
    return runner, y.double()


def weights(file: QuantizedFile) -> dict[str, Any]:
    model = onnx.load(str(file.file.path))
    return {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}


def test_one_weight_off_the_grid_is_wrong_by_its_rounding(tmp_path: Path) -> None:
    """Unsigned weights in steps of 1/255: only 100.4 is rounded, to 100, so that y₀ lacks 0.4/255 of x₁."""
    _, y = outputs(grid(tmp_path), DYNAMIC)
    exact = torch.tensor([[51 * 100.4, 255 * 102], [102 * 255, 102 * 51 + 51 * 102], [255 * 355.4, 255 * 51]]) / 255**2
    lacking = torch.tensor([[51, 0], [0, 0], [255, 0]]) * 0.4 / 255**2
    torch.testing.assert_close(y, (exact - lacking).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_static_ranges_round_the_output_too(tmp_path: Path, form: str) -> None:
    """Signed weights in steps of 1/127: [[127, 50, 0], [25, 0, 51]]. Outputs reach 355.4/255, in 255 steps. The second
    row, x = [0.4, 0, 0.2], whose products fit into 16 bits, pair by pair, as processors without VNNI add them up:
    y₀ = 0.4 is step 73.19, so 73; y₁ = (0.4·25 + 0.2·51)/127 is step 29.10, so 29.
    """
    recipe = Recipe(format=form)
    found = weights(quantize(grid(tmp_path), recipe))
    (stored,) = (value for name, value in found.items() if name.endswith("weight_quantized"))
    assert sorted(stored.flatten().tolist()) == sorted([127, 50, 0, 25, 0, 51])
    _, y = outputs(grid(tmp_path), recipe)
    step = 355.4 / 255 / 255
    torch.testing.assert_close(y[1], torch.tensor([73 * step, 29 * step]).double(), rtol=0, atol=1e-6)


def test_a_reduced_range_has_weights_of_seven_bits(tmp_path: Path) -> None:
    """Steps of 1/64: the largest weight, 1, is 64, and 100.4/255 is 25.2, so 25."""
    found = weights(quantize(grid(tmp_path), Recipe(reduce_range=True)))
    (stored,) = (value for name, value in found.items() if name.endswith("weight_quantized"))
    assert sorted(stored.flatten().tolist()) == sorted([64, 25, 0, 13, 0, 26])


def test_per_channel_each_row_has_its_own_step(tmp_path: Path) -> None:
    """The rows' largest weights are 1 and 102/255: both are stored as 127."""
    found = weights(quantize(grid(tmp_path), Recipe(per_channel=True)))
    (scale,) = (value for name, value in found.items() if name.endswith("weight_scale"))
    np.testing.assert_allclose(scale, [1 / 127, 102 / 255 / 127], rtol=1e-6)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("name", ["quant-ort-dynamic-u8", *STATIC])
def test_every_recipe_quantises_what_is_not_sensitive(shared: Path, name: str) -> None:
    """Five layers, the first and the last left in float: three of five are 60 %. Less than a tenth of the signal is
    wrong, but where the processor saturates: such a variant is a skip there.
    """
    plan = blueprint(shared, Deep)
    runner: Any = VARIANTS[name].build(plan)
    (y,) = runner.outputs(runner.run(runner.prepare(plan.example(0))))
    exact = seeded(Deep).double()(plan.example(0)["x"].double())
    counted, notes = runner.counters(), runner.notes()
    assert VARIANTS[name].missing("cpu") or parity.sqnr_db(parity.rmse(y, exact), parity.rms(exact)) > 20
    assert (counted["quantized_nodes"], counted["quantized_percent"], counted["opset"]) == (3, 60, 20)
    assert counted["bytes_on_disk"] == runner.file.path.stat().st_size
    assert len(notes["left_in_float"].split(", ")) == 2
    assert notes["int8_instructions"] == describe_int8(torch.cpu.get_capabilities())
    runner.close()


def test_a_layer_that_leaves_the_integers_is_named(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change planted: a rule that leaves the second layer in float as well. (Between two quantised layers ONNX
    Runtime would quantise it all the same, when it loads the file.)
    """
    before = outputs(blueprint(shared, Deep), Recipe())[0].counters()
    monkeypatch.setattr(quantized_onnx, "sensitive", lambda layers: (*layers[:2], layers[-1]))
    now = outputs(blueprint(tmp_path, Deep), Recipe())[0].counters()
    worse = {found.note for found in counters.judge("k", now, before, "") if found.word is Word.REGRESSED}
    assert {"quantized_nodes 3 → 2", "quantized_percent 60 → 40"} <= worse


def test_the_share_is_of_products_alone() -> None:
    ran = [
        Node("CPU", op, op, "0") for op in ("QLinearConv", "ConvInteger", "FusedConv", "QLinearConcat", "Relu", "QGemm")
    ]
    assert quantized_percent(ran) == 75
    assert quantized_percent(ran[3:5]) == 0


def test_nothing_to_quantise_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="no MatMul, Gemm or Conv with weights in this core"):
        quantize(blueprint(tmp_path, Sine), Recipe())
    assert not [path for path in (tmp_path / "quantized").iterdir() if path.is_dir()]


def test_beyond_what_the_quantiser_takes_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantized_onnx, "PROTOBUF_LIMIT_BYTES", 100)
    with pytest.raises(UnsupportedError, match="quantises files of up to 2 GB"):
        quantize(grid(tmp_path), Recipe())


def test_a_file_is_made_once_and_the_current_folder_stays_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    first = quantize(grid(tmp_path / "cache"), Recipe())
    assert not list(here.iterdir())
    monkeypatch.setattr(quantization, "quantize_static", None)
    assert quantize(grid(tmp_path / "cache"), Recipe()) == first
    with pytest.raises(TypeError):
        quantize(grid(tmp_path / "cache"), Recipe(reduce_range=True))
    assert len([path for path in (tmp_path / "cache" / "quantized").iterdir() if path.is_dir()]) == 1


def test_calibration_never_draws_a_tests_inputs() -> None:
    """torch keeps the lower 32 bits of a seed, so that one beyond 2³² would draw what some test does."""
    assert torch.equal(rows(Shape("b3", {"batch": 3}), 2**32 + 7)["x"], rows(Shape("b3", {"batch": 3}), 7)["x"])
    assert all(2**31 <= seed < 2**32 for seed in CALIBRATION_SEEDS)


def test_the_first_and_the_last_are_sensitive_where_enough_remains() -> None:
    assert sensitive(["a", "b", "c", "d", "e"]) == ("a", "e")
    assert sensitive(["a", "b", "c", "d"]) == ()


@pytest.mark.parametrize(
    ("capabilities", "said"),
    [
        (AVX2, "none: U8×S8 saturates"),
        (AVX2 | {"avx512_vnni": True, "amx_int8": True}, "avx512_vnni, amx_int8"),
        ({"architecture": "arm64", "dot": True}, "dot"),
        ({"architecture": "arm64"}, "none"),
    ],
)
def test_what_a_processor_does_to_8_bits_is_said(capabilities: dict[str, Any], said: str) -> None:
    assert describe_int8(capabilities) == said
    assert saturates(capabilities) == said.endswith("saturates")


def test_without_vnni_only_what_saturates_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: AVX2)
    assert "no VNNI" in str(no_saturation("cpu"))
    skipped = {name for name in STATIC if VARIANTS[name].missing("cpu")}
    assert skipped == {name for name in STATIC if not name.endswith(("reduce_range", "u8u8"))}
    assert VARIANTS["quant-ort-dynamic-u8"].missing("cpu") is None


def test_a_provider_that_was_not_obtained_fails(tmp_path: Path) -> None:
    on_cuda = SessionSpec(providers=(CUDA,))
    made = quantize(grid(tmp_path), replace(Recipe(), activation="QInt8"))
    if torch.cuda.is_available():
        on_cuda = replace(on_cuda, providers=("NoSuchExecutionProvider",))
    with pytest.raises((RuntimeError, ValueError), match="ExecutionProvider"):
        QuantizedRunner(made, on_cuda, Recipe(), grid_rows(Shape("b3", {}), 0))


def test_all_are_judged_by_sqnr_and_export_but_torchaos() -> None:
    ours = {name: made for name, made in VARIANTS.items() if name.startswith("quant-")}
    assert all(made.lossy and made.exports is name.startswith("quant-ort") for name, made in ours.items())
    assert VARIANTS["quant-ort-cuda-static-qdq-s8s8"].devices == ("cuda",)
