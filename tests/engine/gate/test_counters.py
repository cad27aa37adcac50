"""Exact counters against counters.json: judged in both directions, shown by place, accepted on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perf.errors import CoregateError
from perf.judge.counters import judge, judge_bound, software_moved
from perf.outcome import Word
from perf.store.counters import Accepted, Counted, read, write

if TYPE_CHECKING:
    from conftest import Project

BREAKS = ("-m", "graphbreaks", "--matrix", "covering")


@pytest.mark.parametrize(
    ("name", "now", "before", "word"),
    [
        ("graph_breaks", 1, 0, Word.REGRESSED),
        ("graph_breaks", 0, 1, Word.IMPROVED),
        ("quantized_nodes", 3, 5, Word.REGRESSED),
        ("quantized_nodes", 5, 3, Word.IMPROVED),
        ("opset", 21, 20, Word.SAME),
    ],
)
def test_direction(name: str, now: int, before: int, word: Word) -> None:
    (found,) = judge("k", {name: now}, {name: before}, "")
    assert (found.word, found.note) == (word, f"{name} {before} → {now}")


@pytest.mark.parametrize(
    ("name", "now", "before", "word"),
    [
        ("graphs", 0, 2, Word.REGRESSED),  # it runs eagerly now
        ("graphs", 2, 0, Word.IMPROVED),
        ("graphs", 2, 1, Word.REGRESSED),
        ("nodes_on_CUDA", 12, 10, Word.SAME),  # two came from the CPU, which is told below
        ("nodes_on_CPU", 0, 2, Word.IMPROVED),
        ("nodes_on_CPU:Conv", 1, 0, Word.SAME),
        ("nodes_at_extended:FusedGemm", 0, 1, Word.SAME),
        ("nodes_at_extended", 3, 2, Word.REGRESSED),
    ],
)
def test_more_is_worse_only_where_it_means_so(name: str, now: int, before: int, word: Word) -> None:
    (found,) = judge("core/tiny/v/s/cuda", {name: now}, {name: before}, "")
    assert (found.word, found.note) == (word, f"{name} {before} → {now}")


def test_no_change_is_no_verdict() -> None:
    assert judge("k", {"graphs": 2, "opset": 20}, {"graphs": 2, "opset": 20}, "torch 1 → 2") == []


def test_a_counter_that_appears_counts_from_zero() -> None:
    (found,) = judge("k", {"graphs": 1, "memcpy_nodes": 4}, {"graphs": 1}, "")
    assert (found.metric, found.word) == ("memcpy_nodes", Word.REGRESSED)


@pytest.mark.parametrize(
    ("key", "name", "portable"),
    [
        ("core/tiny/v/s/cpu", "inductor_kernels", False),
        ("core/tiny/v/s/cpu", "nodes_on_CPU", False),
        ("core/tiny/v/s/cuda", "nodes_on_CPU", True),  # a node pushed to the CPU
        ("core/tiny/v/s/cpu", "memcpy_nodes", True),
        ("core/tiny/v/s/cpu", "bytes_on_disk", True),
    ],
)
def test_what_depends_on_the_processor_is_judged_beside_its_own_class_alone(
    key: str, name: str, portable: bool
) -> None:
    one, other = (judge, judge_bound) if portable else (judge_bound, judge)
    (found,) = one(key, {name: 9}, {name: 5}, "")
    assert found.word is Word.REGRESSED
    assert other(key, {name: 9}, {name: 5}, "") == []


def test_software_that_moved_is_said_beside_it() -> None:
    moved = software_moved({"torch": "2.14.1", "onnx": "1"}, {"torch": "2.13.0", "numpy": "2"})
    assert moved == "numpy 2 → absent, onnx absent → 1, torch 2.13.0 → 2.14.1"
    (found,) = judge("k", {"graphs": 2}, {"graphs": 1}, moved)
    assert found.note == f"graphs 1 → 2; since then {moved}"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    counted = {"b/tiny/v/s/cpu": Counted({"graphs": 1}, ("here",)), "a/tiny/cpu/dynamic=None": Counted({})}
    accepted = Accepted({"torch": "2"}, counted)
    write(tmp_path / "counters.json", accepted)
    assert read(tmp_path / "counters.json") == accepted
    assert read(tmp_path / "absent.json") == Accepted()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1}', '{"schema": 1, "software": {}, "counted": {"a": 1}}'])
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "counters.json").write_text(text)
    with pytest.raises(CoregateError, match=r"counters\.json is damaged \(.*\): restore it from git"):
        read(tmp_path / "counters.json")


WHOLE = {"counters": {"graphs": 2}, "places": ["a.py:1"]}
DAMAGED = [
    *({**WHOLE, "counters": counters} for counters in (None, ["graphs"], "graphs", 1)),
    *({**WHOLE, "counters": {"graphs": value}} for value in ("1", {"a": 1}, None, True, -1, 1.5, float("nan"), 1e400)),
    *({**WHOLE, "places": places} for places in ("abc", None, 1, [1], {"a": "b"})),
    *(None, [], "x", {"counters": {}}, {"places": []}),
]


@pytest.mark.parametrize("item", DAMAGED, ids=map(repr, DAMAGED))
def test_a_damaged_value_is_refused_with_its_key_or_its_kind(tmp_path: Path, item: object) -> None:
    path, kept = tmp_path / "counters.json", {"toy/tiny/cpu/dynamic=None": WHOLE, "toy/tiny/eager-fp32/b5/cpu": item}
    path.write_text(json.dumps({"schema": 1, "software": {}, "counted": kept}))
    with pytest.raises(CoregateError, match=r"counters\.json is damaged \(.*\): restore it from git") as raised:
        read(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("key", ["garbage", "", "a/b", "a/b/c", "a/b/c/d/e/f"])
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: str) -> None:
    path = tmp_path / "counters.json"
    path.write_text(json.dumps({"schema": 1, "software": {}, "counted": {key: WHOLE}}))
    with pytest.raises(CoregateError, match=rf"damaged \(ValueError: '{key}' is neither core/preset/variant"):
        read(path)


@pytest.mark.parametrize("change", [{"software": ["torch"]}, {"software": {"torch": 2}}, {"schema": 1e400}])
def test_a_damaged_head_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "counters.json"
    path.write_text(json.dumps({"schema": 1, "software": {}, "counted": {}} | change))
    with pytest.raises(CoregateError, match=r"counters\.json is damaged"):
        read(path)


def test_a_file_that_is_brackets_all_through_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "counters.json").write_text("[" * 100_000)
    with pytest.raises(CoregateError, match=r"is damaged \(RecursionError"):
        read(tmp_path / "counters.json")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "counters.json").write_text('{"schema": 99, "software": {}, "counted": {}}')
    with pytest.raises(CoregateError, match="schema 99, this coregate reads 1"):
        read(tmp_path / "counters.json")


def counters_file(project: Project) -> Path:
    return project.path / "perf" / "baselines" / "counters.json"


def accept(project: Project) -> dict[str, dict[str, dict[str, int]]]:
    assert project.run(*BREAKS, "--accept-counters").ret == 0
    counted: dict[str, dict[str, dict[str, int]]] = json.loads(counters_file(project).read_text())["counted"]
    return counted


def test_accepted_counters_hold_and_the_same_run_says_nothing(project: Project) -> None:
    counted = accept(project)
    assert counted["toy/tiny/cpu/dynamic=False"]["counters"] == {
        "graphs": 2, "graph_breaks": 0, "recompiles": 1, "recompile_limit_hits": 0, "cudagraph_skips": 0,
    }  # fmt: skip
    result = project.run(*BREAKS)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*coregate: counters*")


def test_damaged_counters_are_refused_before_anything_is_counted(project: Project) -> None:
    kept = {"toy/tiny/cpu/dynamic=None": {"counters": {"graphs": float("nan")}, "places": []}}
    project.write("perf/baselines/counters.json", json.dumps({"schema": 1, "software": {}, "counted": kept}))
    result = project.run(*BREAKS)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *counters.json is damaged (ValueError: toy/tiny/cpu/dynamic=None: counters *"])
    result.stdout.no_fnmatch_line("*passed*")


def test_a_core_that_breaks_now_is_regressed_with_its_place(project: Project) -> None:
    accept(project)
    project.core(between='torch._dynamo.graph_break(msg="planted")')
    project.write(
        "mycores/toy.py",
        (project.path / "mycores/toy.py").read_text().replace('name="toy",', 'name="toy", impure="has a break",'),
    )
    result = project.run(*BREAKS)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "regressed: toy/tiny/cpu/dynamic=None: graph_breaks 0 → *",
            "    + break: *planted*mycores/toy.py:*",
            "*--accept-counters",
        ]
    )


def test_better_counters_pass_and_ask_to_be_accepted(project: Project) -> None:
    counted = accept(project)
    counted["toy/tiny/cpu/dynamic=True"]["counters"]["graphs"] = 5
    document = json.loads(counters_file(project).read_text())
    counters_file(project).write_text(json.dumps(document | {"counted": counted}))
    result = project.run(*BREAKS)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["improved: toy/tiny/cpu/dynamic=True: graphs 5 → 1", "*--accept-counters"])


def test_a_renamed_core_is_missing(project: Project) -> None:
    accept(project)
    project.core(name="renamed")
    result = project.run(*BREAKS)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["missing: toy/tiny/cpu/dynamic=False: no longer in the catalogue: renamed or removed"])


def test_another_core_is_not_missing_where_one_is_asked_for(project: Project) -> None:
    project.write("mycores/other.py", (project.path / "mycores/toy.py").read_text().replace('"toy"', '"other"'))
    accept(project)
    result = project.run(*BREAKS, "--core", "toy")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*missing:*")


def test_accepting_keeps_what_this_run_did_not_count(project: Project) -> None:
    project.write("mycores/other.py", (project.path / "mycores/toy.py").read_text().replace('"toy"', '"other"'))
    before = accept(project)
    assert project.run(*BREAKS, "--core", "toy", "--accept-counters").ret == 0
    assert set(json.loads(counters_file(project).read_text())["counted"]) == set(before)


def test_a_variants_counters_are_held_as_well(project: Project) -> None:
    parity = ("-m", "parity", "--variant", "aot_eager", "--variant", "eager-fp32")
    assert project.run(*parity, "--accept-counters").ret == 0
    counted = json.loads(counters_file(project).read_text())["counted"]
    assert counted["toy/tiny/aot_eager/b5/cpu"]["counters"]["graphs"] == 1
    assert counted["toy/tiny/eager-fp32/b5/cpu"]["counters"]["graphs"] == 0
