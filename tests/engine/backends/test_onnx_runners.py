"""Running: counters by construction, memory bound by pointer, and every CPU variant of the family against torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

from perf.backends import onnx_runners
from perf.backends.onnx_files import OnnxFile, export
from perf.backends.onnx_runners import BoundRunner, OnnxRunner, bind_input, make_runner
from perf.backends.onnx_session import open_session
from perf.backends.onnx_spec import CUDA, TENSORRT, Export, SessionSpec
from perf.contract import Inputs, Shape, Variant
from perf.measure.fresh_load import fresh_load
from perf.variants.onnx import ON_CPU, VARIANTS
from tests.engine.onnx_toys import SHAPES, Mlp, blueprint, rows, seeded

QUICK = Export("legacy", 17)
BOUND = SessionSpec(bound=True)
BY_NAME = {variant.name: variant for variant in VARIANTS}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def mlp(shared: Path) -> OnnxFile:
    return export(blueprint(shared), QUICK)


def runner(file: OnnxFile, spec: SessionSpec = ON_CPU) -> OnnxRunner:
    return make_runner(file, spec, "float32", rows(SHAPES[0], 0))


def result(of: OnnxRunner, inputs: Inputs) -> Tensor:
    (found,) = of.outputs(of.run(of.prepare(inputs)))
    return found


def test_counters_are_the_files_and_the_nodes_that_ran(mlp: OnnxFile) -> None:
    found = dict(runner(mlp).counters())
    assert found.pop("bytes_on_disk") == mlp.path.stat().st_size
    assert found == {
        "opset": 17,
        "onnx_nodes": 3,
        "ort_nodes": 2,
        "memcpy_nodes": 0,
        "quantized_nodes": 0,
        "nodes_on_CPU": 2,
        "nodes_on_CPU:FusedGemm": 1,
        "nodes_on_CPU:Gemm": 1,
        "nodes_at_disable": 3,
        "nodes_at_basic": 3,
        "nodes_at_extended": 2,
        "nodes_at_all": 2,
        "nodes_at_extended:FusedGemm": 1,
        "nodes_at_extended:Gemm": 1,
    }


def test_a_fusion_undone_moves_counters_that_name_it(mlp: OnnxFile) -> None:
    before = runner(mlp).counters()
    after = runner(mlp, SessionSpec(disabled_optimizers=("GemmActivationFusion",))).counters()
    moved = {
        name: (before.get(name, 0), after.get(name, 0))
        for name in {*before, *after}
        if before.get(name, 0) != after.get(name, 0) and name.startswith("nodes_on_CPU:")
    }
    assert moved == {
        "nodes_on_CPU:FusedGemm": (1, 0),
        "nodes_on_CPU:Gemm": (1, 2),
        "nodes_on_CPU:Relu": (0, 1),
    }


def test_parallel_execution_is_counted_like_sequential(mlp: OnnxFile) -> None:
    assert runner(mlp, SessionSpec(parallel=True, inter_threads=2)).nodes == runner(mlp).nodes


@pytest.mark.parametrize("spec", [ON_CPU, BOUND])
def test_a_transposed_input_is_read_in_its_own_order(mlp: OnnxFile, spec: SessionSpec) -> None:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1)).T
    assert not x.is_contiguous()
    torch.testing.assert_close(result(runner(mlp, spec), {"x": x}), seeded(Mlp)(x), rtol=1e-5, atol=1e-6)


def test_memory_in_the_wrong_order_is_not_bound(mlp: OnnxFile) -> None:
    binding = open_session(mlp.path, ON_CPU).io_binding()
    with pytest.raises(
        ValueError, match=r"^x is not contiguous \(strides \(1, 3\)\): bind a copy, tensor.contiguous\(\)$"
    ):
        bind_input(binding, "x", torch.zeros(8, 3).T)


def test_bound_memory_is_the_callers_and_each_set_of_inputs_has_its_own(mlp: OnnxFile) -> None:
    made = runner(mlp, BOUND)
    assert isinstance(made, BoundRunner)
    draws = [rows(Shape("any", {"batch": batch}), seed) for batch, seed in ((3, 1), (5, 2), (3, 3))]
    prepared = [made.prepare(draw) for draw in draws]
    for draw, bound in zip([*draws, *draws[::-1]], [*prepared, *prepared[::-1]], strict=True):
        raw = made.run(bound)
        assert raw[0].data_ptr() == bound.outputs[0].data_ptr()
        torch.testing.assert_close(raw[0], seeded(Mlp)(draw["x"]), rtol=1e-5, atol=1e-6)


def test_outputs_outlive_the_next_call(mlp: OnnxFile) -> None:
    made = runner(mlp, BOUND)
    bound = made.prepare(rows(SHAPES[0], 1))
    (kept,) = made.outputs(made.run(bound))
    before = kept.clone()
    bound.inputs[0].zero_()
    made.run(bound)
    assert torch.equal(kept, before)
    assert not torch.equal(bound.outputs[0], before)


def test_each_set_of_inputs_is_a_graph_of_its_own_and_learning_shapes_is_none(
    mlp: OnnxFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(onnx_runners, "_graph", lambda number: asked.append(number))
    made = runner(mlp, BOUND)
    for seed in (1, 2):
        made.prepare(rows(SHAPES[0], seed))
    assert [number for number in asked if number != -1] == [1, 2, 3]
    assert asked.count(-1) == 3


class Many(nn.Module):
    def forward(self, ids: Tensor, keep: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return ids * 2, keep.logical_not(), ids * scale


def several(shape: Shape, seed: int) -> Inputs:
    return {"ids": torch.tensor([1, 2, 3]), "keep": torch.tensor([True, False]), "scale": torch.tensor(0.5)}


@pytest.mark.parametrize("spec", [ON_CPU, BOUND])
def test_integers_booleans_and_scalars_pass_through(shared: Path, spec: SessionSpec) -> None:
    plan = blueprint(shared, Many, inputs=several, dynamic={})
    core = replace(plan.core, outputs=("doubled", "dropped", "scaled"))
    made = make_runner(export(replace(plan, core=core), QUICK), spec, "float32", plan.example(0))
    doubled, dropped, scaled = made.outputs(made.run(made.prepare(plan.example(0))))
    assert (doubled.tolist(), dropped.tolist(), scaled.tolist()) == ([2, 4, 6], [False, True], [0.5, 1.0, 1.5])
    assert (doubled.dtype, dropped.dtype, scaled.dtype) == (torch.int64, torch.bool, torch.float32)


def test_a_provider_that_was_obtained_and_ran_nothing_is_a_fallback(
    mlp: OnnxFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that says CUDA and runs all of it on the CPU."""
    monkeypatch.setattr(onnx_runners, "open_session", lambda path, _, options: open_session(path, ON_CPU, options))
    with pytest.raises(
        RuntimeError, match=r"^asked for CUDAExecutionProvider, but none of the 2 nodes ran there: .* CPU$"
    ):
        make_runner(mlp, SessionSpec(providers=(CUDA,)), "float32", rows(SHAPES[0], 0))


def test_every_cpu_variant_agrees_with_torch(shared: Path) -> None:
    module = seeded(Mlp)
    for variant in (variant for variant in VARIANTS if variant.devices == ("cpu",)):
        plan = blueprint(shared)
        made = variant.build(plan)
        (found,) = made.outputs(made.run(made.prepare(plan.example(3))))
        assert found.dtype == getattr(torch, variant.dtype)
        bound = 1e-5 if variant.dtype == "float32" else 5e-3
        torch.testing.assert_close(found.float(), module(plan.example(3)["x"]), rtol=bound, atol=bound)
        assert made.counters()["nodes_on_CPU"] >= 2
        made.close()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_variants_options_are_data_that_tell_it_from_all_others(variant: Variant) -> None:
    assert json.loads(json.dumps(dict(variant.options)))
    others = [other for other in VARIANTS if other.name != variant.name]
    assert all((dict(other.options), other.dtype) != (dict(variant.options), variant.dtype) for other in others)


def test_tensor_cores_are_kept_from_nothing_but_float32() -> None:
    """Where TF32 is forbidden, ONNX Runtime's convolutions run on no tensor core of any dtype."""
    forbidden = {name for name, variant in BY_NAME.items() if "use_tf32" in json.dumps(dict(variant.options))}
    single = {name for name in BY_NAME if name.startswith("onnx-cuda-fp32")}
    assert forbidden == single
    assert len(single) >= 4


@pytest.mark.skipif(torch.cuda.is_available(), reason="what is missing is the GPU")
@pytest.mark.parametrize("name", [name for name, variant in BY_NAME.items() if variant.devices == ("cuda",)])
def test_without_a_gpu_a_gpu_variant_is_a_skip_and_built_all_the_same_it_fails(shared: Path, name: str) -> None:
    variant = BY_NAME[name]
    assert "no CUDA device" in (variant.missing("cuda") or "")
    with pytest.raises(Exception, match=r"fell back to CPU|fallback to CPU EP|TensorRT"):
        variant.build(blueprint(shared))


def test_tensorrts_engines_are_kept_by_content(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SessionSpec] = []

    def stop(_: Path, spec: SessionSpec, __: Any) -> None:
        asked.append(spec)
        raise RuntimeError("far enough")

    monkeypatch.setattr(onnx_runners, "open_session", stop)
    plan = blueprint(shared)
    with pytest.raises(RuntimeError, match="far enough"):
        BY_NAME["onnx-tensorrt-fp16"].build(plan)
    options = asked[0].provider_options[TENSORRT]
    (folder,) = (shared / "tensorrt").iterdir()
    assert options["trt_engine_cache_path"] == str(folder)
    assert (options["trt_engine_cache_enable"], options["trt_fp16_enable"]) == ("1", "1")
    assert (shared / "onnx" / folder.name / "model.onnx").exists()


def test_a_session_starts_from_its_file_and_from_what_was_optimised(mlp: OnnxFile, tmp_path: Path) -> None:
    """The saved graph has the two nodes that fusion left; both open in a process without torch."""
    ways = runner(mlp, SessionSpec()).loadings(tmp_path)
    assert list(ways) == ["session_load_s", "optimised_load_s"]
    optimised = onnx.load(ways["optimised_load_s"].arguments[0])
    assert [node.op_type for node in optimised.graph.node] == ["FusedGemm", "Gemm"]
    assert ways["session_load_s"].arguments[1:2] == ("ORT_ENABLE_ALL",)
    assert ways["optimised_load_s"].arguments[1:2] == ("ORT_DISABLE_ALL",)
    for way in ways.values():
        assert "torch" not in way.setting_up
        assert fresh_load(way.setting_up, way.loading, way.arguments, tmp_path).load_s > 0


def test_a_profiled_session_writes_a_profile_of_every_call_until_it_is_closed(mlp: OnnxFile) -> None:
    made = runner(mlp, SessionSpec(profiling=True))
    folder = Path(made._profiles.name)
    prepared = made.prepare(rows(SHAPES[0], 1))
    (first,), (second,) = (made.outputs(made.run(prepared)) for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert [node.op for node in made.nodes] == ["FusedGemm", "Gemm"]
    assert list(folder.glob("profile*.json"))
    made.close()
    assert not folder.exists()
