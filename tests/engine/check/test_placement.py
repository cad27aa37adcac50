"""Which node ran where: profiles written out by hand for the GPU that is not here, and whole runs on the CPU."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnxruntime
import onnxscript
import pytest

from perf.backends.onnx_profile import Node, node_counters, nodes, read_profile
from perf.check.placement import Placement
from perf.errors import CoregateError
from perf.report.cases import size
from perf.report.placement import SHOWN, placement_table, write_placements

if TYPE_CHECKING:
    from conftest import Project

LOADED = (onnx, onnxruntime, onnxscript)
"""pytester forgets the modules that a run imports, and a second import of these ends the process: all first."""

CUDA, CPU, TRT = "CUDAExecutionProvider", "CPUExecutionProvider", "TensorrtExecutionProvider"


def event(name: str, op: str, provider: str, index: int, cat: str = "Node") -> dict[str, Any]:
    """As ONNX Runtime 1.31 writes one."""
    args = {"op_name": op, "provider": provider, "node_index": str(index), "thread_scheduling_stats": ""}
    return {"cat": cat, "pid": 1, "tid": 1, "dur": 3, "ts": 9, "ph": "X", "name": f"{name}_kernel_time", "args": args}


WHOLE = [
    {"cat": "Session", "pid": 1, "tid": 1, "dur": 627, "ts": 11, "ph": "X", "name": "model_loading_uri", "args": {}},
    event("conv", "Conv", CUDA, 0),
    event("up", "Resize", CUDA, 1),
    event("out", "Conv", CUDA, 2),
    {"cat": "Session", "pid": 1, "tid": 1, "dur": 547, "ts": 58, "ph": "X", "name": "model_run", "args": {}},
]
PUSHED = [
    event("conv", "Conv", CUDA, 0),
    event("Memcpy", "MemcpyToHost", CUDA, 3),
    event("up", "Resize", CPU, 1),
    event("Memcpy_token_5", "MemcpyFromHost", CUDA, 4),
    event("out", "Conv", CUDA, 2),
]


def placement(events: list[dict[str, Any]], *providers: str, levels: dict[str, int] | None = None) -> Placement:
    ran = nodes(events)
    counted = {"opset": 20, "onnx_nodes": 4, "bytes_on_disk": 9338, **node_counters(ran)}
    return Placement(providers, ran, levels or {}, counted)


def test_distinct_nodes_are_counted_however_often_they_ran() -> None:
    assert nodes([*WHOLE, *WHOLE]) == nodes(WHOLE)
    assert [(node.op, node.name, node.provider) for node in nodes(WHOLE)] == [
        ("Conv", "conv", "CUDA"),
        ("Conv", "out", "CUDA"),
        ("Resize", "up", "CUDA"),
    ]


def test_two_nodes_without_a_name_are_two() -> None:
    assert len(nodes([event("", "Add", CPU, 0), event("", "Add", CPU, 1)])) == 2


def test_a_node_pushed_to_the_cpu_is_named_by_the_counters_and_under_the_table() -> None:
    before, after = placement(WHOLE, "CUDA"), placement(PUSHED, "CUDA")
    was, now = before.counters(), after.counters()
    assert {
        name: (was.get(name, 0), now.get(name, 0)) for name in {*was, *now} if was.get(name, 0) != now.get(name, 0)
    } == {
        "ort_nodes": (3, 5),
        "memcpy_nodes": (0, 2),
        "nodes_on_CUDA": (3, 4),
        "nodes_on_CPU": (0, 1),
        "nodes_on_CPU:Resize": (0, 1),
        "nodes_on_CUDA:Resize": (1, 0),
        "nodes_on_CUDA:MemcpyFromHost": (0, 1),
        "nodes_on_CUDA:MemcpyToHost": (0, 1),
    }
    assert before.strays == ()
    assert [line.strip() for line in placement_table([("toy", after)])[2:]] == [
        "not on CUDA: Resize up on CPU",
        "copy: MemcpyFromHost Memcpy_token_5 on CUDA",
        "copy: MemcpyToHost Memcpy on CUDA",
    ]


def test_an_engine_has_one_name_whatever_the_graphs_hash() -> None:
    first, second = (f"TRTKernel_graph_main_graph_{number}_0" for number in (1234567, 89))
    assert [[node.op for node in nodes([event("", op, TRT, 0)])] for op in (first, second)] == [["TRTKernel"]] * 2


@pytest.mark.parametrize(
    ("op", "quantized"),
    [
        *((op, True) for op in ("QLinearConv", "QLinearMatMul", "QGemm", "QAttention", "MatMulInteger", "MatMulNBits")),
        *((op, True) for op in ("ConvInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM")),
        *((op, False) for op in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QuickGelu", "Conv")),
    ],
)
def test_quantised_is_what_computes_on_integers(op: str, quantized: bool) -> None:
    assert Node("CPU", op, "n", "0").quantized is quantized


def test_the_share_is_of_the_nodes_that_ran() -> None:
    ops = ("QuantizeLinear", "QLinearConv", "DequantizeLinear", "Softmax")
    found = placement([event(op, op, CPU, index) for index, op in enumerate(ops)], "CPU")
    assert (found.quantized_share, found.counters()["quantized_nodes"]) == (0.25, 1)


def test_a_profile_that_tells_of_no_node_is_no_placement(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(json.dumps(WHOLE[:1]))
    with pytest.raises(RuntimeError, match="tells of no node"):
        read_profile(tmp_path / "profile.json")


def test_the_table_has_a_line_a_case_with_each_count_under_its_heading() -> None:
    levels = {"disable": 5, "basic": 4, "extended": 3, "all": 2}
    rows = [("toy/cuda", placement(PUSHED[:1], "CUDA", levels=levels)), ("toy/cpu", placement(PUSHED[2:3], "CPU"))]
    heading, cuda, cpu = placement_table(rows)
    assert heading.split("  ")[-1].strip() == "size"
    columns = [
        "in file",
        "ran",
        "CPU",
        "CUDA",
        "copies",
        "quantised",
        "at disable",
        "at basic",
        "at extended",
        "at all",
    ]
    starts = [heading.index(f" {column}") + 1 for column in columns]
    assert [cuda[at:].split()[0] for at in starts] == ["4", "1", "0", "1", "0", "0%", "5", "4", "3", "2"]
    assert [cpu[at:].split()[0] for at in starts] == ["4", "1", "1", "0", "0", "0%", "-", "-", "-", "-"]
    assert cpu.endswith("20     9.34 kB")


def test_many_strays_are_counted_after_the_first() -> None:
    events = [
        event("conv", "Conv", CUDA, 0),
        *(event(f"n{index}", "Shape", CPU, index) for index in range(1, SHOWN + 3)),
    ]
    lines = placement_table([("toy", placement(events, "CUDA"))])
    assert len(lines) == 2 + SHOWN + 1
    assert lines[-1].strip() == "and 2 more nodes: see --placement-report"


def test_no_rows_is_said() -> None:
    assert placement_table([]) == ["no node was placed"]


@pytest.mark.parametrize(
    ("count", "said"), [(999, "999 B"), (9338, "9.34 kB"), (9_071_340, "9.07 MB"), (2.5e9, "2.5 GB")]
)
def test_sizes_have_a_unit(count: int, said: str) -> None:
    assert size(count) == said


def test_the_file_holds_everything(tmp_path: Path) -> None:
    path = tmp_path / "new" / "placement.json"
    found = placement(PUSHED, "CUDA")
    write_placements(path, [("toy", found)], {"machine": "m"})
    document = json.loads(path.read_text(encoding="utf8"))
    assert (document["schema"], document["onnxruntime"]) == (1, version("onnxruntime-gpu"))
    (row,) = document["rows"]
    assert (row["name"], row["providers"], row["counters"]) == ("toy", ["CUDA"], dict(found.counters()))
    assert {"provider": "CPU", "op": "Resize", "name": "up", "index": "1"} in row["nodes"]
    assert len(row["nodes"]) == 5


def test_a_path_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CoregateError, match=r"^cannot write .*$"):
        write_placements(tmp_path / "file" / "placement.json", [], {})


def test_the_table_is_printed_when_everything_passes(project: Project) -> None:
    chosen = ("--variant", "onnx-cpu-fp32", "--variant", "eager-fp32")
    result = project.run("-m", "placement", *chosen, "--placement-report", "placement.json")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*coregate: placement*",
            "*in file*ran*CPU*",
            "toy/tiny/onnx-cpu-fp32/b5/cpu * 3 * 2 * 2 * 0 * 0% * 3 * 3 * 2 * 2 *",
        ]
    )
    (row,) = json.loads((project.path / "placement.json").read_text())["rows"]
    assert row["counters"]["nodes_on_CPU:FusedGemm"] == 1


MINE = """
from functools import partial
from perf.contract import Variant
from perf.backends.onnx_spec import CUDA, Export, SessionSpec
from perf.variants.onnx import build

SPEC = SessionSpec(log_severity=4, {settings})
MADE = partial(build, export=Export("legacy", 17), session=SPEC)
VARIANTS = [Variant("onnx-mine", MADE, devices=("cpu",), exports=True, options={{"providers": SPEC.providers}})]
"""
NOWHERE = 'providers=(CUDA,), provider_options={CUDA: {"device_id": "99"}}'


def run_mine(project: Project, settings: str, *arguments: str) -> pytest.RunResult:
    project.write("myvariants/mine.py", MINE.format(settings=settings))
    result: pytest.RunResult = project.run("-o", "perf_variants=myvariants", "--variant", "onnx-mine", *arguments)
    return result


def test_a_fallback_fails_in_one_line(project: Project) -> None:
    result = run_mine(project, NOWHERE, "-m", "placement")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["toy/tiny/onnx-mine/b5/cpu: did not build: *CUDA*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_fusion_undone_fails_a_run_and_is_named(project: Project) -> None:
    assert run_mine(project, "", "-m", "parity", "--accept-counters").ret == 0
    assert run_mine(project, "", "-m", "parity").ret == 0
    result = run_mine(project, 'disabled_optimizers=("GemmActivationFusion",)', "-m", "parity")
    assert result.ret == 1
    case = "toy/tiny/onnx-mine/b5/cpu"
    result.stdout.fnmatch_lines_random(
        [f"regressed: {case}: nodes_at_extended 2 → 3*", f"same: {case}: nodes_at_extended:FusedGemm 1 → 0*"]
    )


def test_placement_alone_gates_what_it_counts(project: Project) -> None:
    assert run_mine(project, "", "-m", "placement", "--accept-counters").ret == 0
    assert run_mine(project, "", "-m", "parity").ret == 0
    result = run_mine(project, 'disabled_optimizers=("GemmActivationFusion",)', "-m", "placement")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["regressed: toy/tiny/onnx-mine/b5/cpu: nodes_at_extended 2 → 3*"])


def test_what_no_session_runs_has_no_placement_to_check(project: Project) -> None:
    result = project.run("-m", "placement", "--variant", "eager-fp32")
    result.assert_outcomes()
    assert result.ret == 5
