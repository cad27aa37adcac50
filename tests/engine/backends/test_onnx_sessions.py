"""ONNX Runtime's sessions: options as data, levels, and no fall-back that is not said. Graphs are written by hand."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from perf.backends.onnx_files import OnnxFile, check
from perf.backends.onnx_session import LEVELS_UP_TO_BYTES, count_levels, level_counters, open_session, session_options
from perf.backends.onnx_spec import CPU, CUDA, LEVELS, NO_CPU_FALLBACK, TENSORRT, Export, SessionSpec, chosen
from perf.errors import UnsupportedError

FUSION = "GemmActivationFusion"


def write(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], opset: int = 20) -> OnnxFile:
    """A model x [3, 4] → y [3, 4], float32."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("x", "y")]
    graph = helper.make_graph(
        nodes, "g", value[:1], value[1:], [numpy_helper.from_array(w, n) for n, w in weights.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), str(path))
    return OnnxFile.read(path)


@pytest.fixture
def mlp(tmp_path: Path) -> OnnxFile:
    """x → Identity → Gemm → Relu → + (1 + 2) → y. `basic` drops Identity and folds 1 + 2, `extended` fuses."""
    one, two = np.full((3, 4), 1.0, np.float32), np.full((3, 4), 2.0, np.float32)
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Gemm", ["same", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("Add", ["one", "two"], ["three"]),
        helper.make_node("Add", ["positive", "three"], ["y"]),
    ]
    folder = tmp_path / "model"
    folder.mkdir()
    return write(folder / "model.onnx", nodes, {"w": np.eye(4, dtype=np.float32), "one": one, "two": two})


def test_each_level_leaves_what_its_rules_say(mlp: OnnxFile) -> None:
    levels = count_levels(mlp, SessionSpec())
    assert list(levels) == list(LEVELS)
    assert levels["disable"] == Counter(Identity=1, Gemm=1, Relu=1, Add=2)
    assert levels["basic"] == Counter(Gemm=1, Relu=1, Add=1)
    assert levels["extended"] == levels["all"] == Counter(FusedGemm=1, Add=1)
    assert mlp.nodes == 5


def test_a_fusion_undone_is_named(mlp: OnnxFile) -> None:
    before = level_counters(count_levels(mlp, SessionSpec()))
    after = level_counters(count_levels(mlp, SessionSpec(disabled_optimizers=(FUSION,))))
    moved = {name: (before.get(name, 0), after.get(name, 0)) for name in {*before, *after}}
    assert {name: change for name, change in moved.items() if change[0] != change[1]} == {
        "nodes_at_extended": (2, 3),
        "nodes_at_all": (2, 3),
        "nodes_at_extended:FusedGemm": (1, 0),
        "nodes_at_extended:Gemm": (0, 1),
        "nodes_at_extended:Relu": (0, 1),
    }


def test_levels_are_not_counted_where_a_graph_is_too_large_or_compiled(mlp: OnnxFile) -> None:
    assert count_levels(replace(mlp, bytes_on_disk=LEVELS_UP_TO_BYTES + 1), SessionSpec()) == {}
    assert count_levels(mlp, SessionSpec(providers=(TENSORRT, CUDA))) == {}
    assert level_counters({}) == {}


@pytest.mark.parametrize("providers", [(CUDA,), (TENSORRT, CUDA)])
@pytest.mark.parametrize("config", [{}, NO_CPU_FALLBACK])
def test_a_provider_that_is_not_there_never_becomes_another(
    mlp: OnnxFile, providers: tuple[str, ...], config: dict[str, str]
) -> None:
    """Where there is a GPU, a number that no GPU has is asked for."""
    options = {name: {"device_id": "99"} for name in providers} if torch.cuda.is_available() else {}
    spec = SessionSpec(providers, options, config=config, log_severity=4)
    with pytest.raises(Exception, match=r"fell back to CPU|fallback to CPU EP|TensorRT|device"):
        open_session(mlp.path, spec)


def test_a_provider_that_onnx_runtime_dropped_without_a_word_is_named(
    mlp: OnnxFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda session: [CPU])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    with pytest.raises(RuntimeError, match=r"^asked for CUDAExecutionProvider, ONNX Runtime fell back to CPUExecution"):
        open_session(mlp.path, SessionSpec(providers=(CUDA,), log_severity=4))


@pytest.mark.parametrize(("obtained", "lost"), [([CUDA, CPU], False), ([TENSORRT, CUDA, CPU], False), ([CPU], True)])
def test_a_lenient_session_takes_one_of_its_providers_but_no_other(
    mlp: OnnxFile, monkeypatch: pytest.MonkeyPatch, obtained: list[str], lost: bool
) -> None:
    monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda session: obtained)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    spec = SessionSpec(providers=(TENSORRT, CUDA), lenient=True, log_severity=4)
    refused = pytest.raises(RuntimeError, match=r"^asked for TensorrtExecutionProvider, CUDAExecutionProvider, ONNX")
    with refused if lost else nullcontext():
        open_session(mlp.path, spec)


def test_an_operator_without_a_kernel_is_a_skip(tmp_path: Path) -> None:
    """Hardmax of bfloat16 is legal ONNX, and ONNX Runtime's CPU has none."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [3, 4]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Hardmax", ["x"], ["y"])], "g", [x], [y])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), str(path))
    check(path)
    with pytest.raises(UnsupportedError, match=r"^ONNX Runtime: .*NOT_IMPLEMENTED.*Hardmax"):
        open_session(path, SessionSpec())


def test_a_model_that_cannot_be_a_cuda_graph_is_a_skip(mlp: OnnxFile, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "This session cannot use the graph capture feature as requested by the user as the model has control flow"

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    with pytest.raises(UnsupportedError, match=said):
        open_session(mlp.path, SessionSpec())


def test_options_reach_the_session(mlp: OnnxFile) -> None:
    config = {"session.intra_op.allow_spinning": "0"}
    spec = SessionSpec(
        level="basic",
        intra_threads=3,
        inter_threads=2,
        parallel=True,
        memory_pattern=False,
        config=config,
        log_severity=4,
    )
    held = open_session(mlp.path, spec).get_session_options()
    assert held.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert (held.intra_op_num_threads, held.inter_op_num_threads) == (3, 2)
    assert held.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert not held.enable_mem_pattern
    assert held.log_severity_level == 4
    assert held.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_threads_are_torchs_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert session_options(SessionSpec()).intra_op_num_threads == 7
    assert session_options(SessionSpec(intra_threads=1)).intra_op_num_threads == 1


def test_levels_are_counted_without_what_would_refuse_the_session(mlp: OnnxFile) -> None:
    """Beside an explicit CPU provider this entry is an error of ONNX Runtime's."""
    with pytest.raises(Exception, match="disabled fallback to the CPU EP"):
        open_session(mlp.path, SessionSpec(config=NO_CPU_FALLBACK, log_severity=4))
    assert count_levels(mlp, SessionSpec(config=NO_CPU_FALLBACK)) == count_levels(mlp, SessionSpec())


def test_nodes_that_would_run_on_a_forbidden_cpu_are_a_skip(mlp: OnnxFile, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "This session contains graph nodes that are assigned to the default CPU EP, but "
    refused = RuntimeError(said + "fallback to CPU EP has been explicitly disabled by the user.")
    monkeypatch.setattr(onnxruntime, "InferenceSession", Mock(side_effect=[refused, Mock(get_providers=lambda: [CPU])]))
    with pytest.raises(UnsupportedError, match="leaves nodes of this graph to the CPU, which this variant forbids"):
        open_session(mlp.path, SessionSpec(config=NO_CPU_FALLBACK))


def test_settings_print_as_what_differs() -> None:
    assert chosen(SessionSpec()) == chosen(Export()) == {}
    assert chosen(SessionSpec(parallel=True, inter_threads=2)) == {"parallel": True, "inter_threads": 2}


def test_nodes_of_both_branches_count(tmp_path: Path) -> None:
    """Two nodes make a condition; the If is one; one branch has one node, the other two."""
    out = helper.make_tensor_value_info("r", TensorProto.FLOAT, [3, 4])
    one = helper.make_graph([helper.make_node("Abs", ["x"], ["r"])], "then", [], [out])
    two = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Abs", ["n"], ["r"])]
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["positive"]),
        helper.make_node(
            "If", ["positive"], ["y"], then_branch=one, else_branch=helper.make_graph(two, "else", [], [out])
        ),
    ]
    file = write(tmp_path / "model.onnx", nodes, {"zero": np.zeros((), np.float32)})
    check(file.path)
    assert file.nodes == 6
