"""Damage anywhere in a file is one line and exit 4: on accept, and on compare, where 1 would read as regressed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perf.__main__ import main
from perf.errors import CoregateError
from perf.store.baselines import read_run
from perf.store.rows import FIELD
from tests.engine.gate_toys import record
from tests.engine.runs import entry, write_run

if TYPE_CHECKING:
    from conftest import Project

NAN = float("nan")
WHOLE = {
    "command": "pytest",
    "commit": "0" * 40,
    "hardware": {"cpu": "a"},
    "software": {"torch": "2.14.1"},
    "controls": {"copy": 0.1},
    "ceilings": {"copy": 1e10},
    "wrong": [],
    "contaminated": [],
}
NO_TEXT: list[Any] = [None, 1, ["a"], {"a": "b"}]
NO_TEXTS: list[Any] = [None, "x", 1, {"a": "b"}, [1], [None]]
NO_NAMED_TEXTS: list[Any] = [None, "x", 1, ["a"], {"a": 1}, {"a": None}]
NO_NAMED_POSITIVE: list[Any] = [
    *(None, "x", 1, [1.0], {"copy": "x"}, {"copy": None}, {"copy": True}),
    *({"copy": NAN}, {"copy": float("inf")}, {"copy": 0}, {"copy": -1.0}),
]
DAMAGED = {
    "command": NO_TEXT,
    "commit": NO_TEXT,
    "hardware": NO_NAMED_TEXTS,
    "software": NO_NAMED_TEXTS,
    "controls": NO_NAMED_POSITIVE,
    "ceilings": NO_NAMED_POSITIVE,
    "wrong": NO_TEXTS,
    "contaminated": NO_TEXTS,
    "class": [*NO_TEXT, "", ".", "..", "../up", "a/b", "/a", ".hidden", "a\0b", "a\nb", "\ud800"],
}
CASES = [(name, value) for name, values in DAMAGED.items() for value in values]


def test_a_whole_run_and_one_with_fewer_fields_are_read(tmp_path: Path) -> None:
    whole = read_run(write_run(tmp_path / "0001_a.json", entry(), **WHOLE))
    assert (whole.controls, whole.software, whole.commit) == ({"copy": 0.1}, {"torch": "2.14.1"}, "0" * 40)
    for name in WHOLE:
        fewer = {other: value for other, value in WHOLE.items() if other != name}
        assert read_run(write_run(tmp_path / "0001_a.json", entry(), **fewer)).rows == whole.rows
    bare = tmp_path / "0002_b.json"
    bare.write_text(json.dumps({"machine_info": {}, "benchmarks": [entry()]}))
    assert (read_run(bare).controls, read_run(bare).software, read_run(bare).commit) == ({}, {}, "")


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name}={value!r}" for name, value in CASES])
def test_a_field_of_another_type_is_refused_by_accept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: Any
) -> None:
    path = write_run(tmp_path / "0001_a.json", entry(), **WHOLE)
    document = json.loads(path.read_text())
    document["machine_info"]["coregate"][name] = value
    path.write_text(json.dumps(document))
    assert main(["accept", str(path), "--reason", "why", "--baselines", str(tmp_path / "b")]) == 4
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: machine_info['coregate']['{name}'] is {str(repr(value))[:50]}")
    assert said.count("\n") == 1
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("value", [[], "x", None, 1])
def test_what_should_be_an_object_is_refused_where_it_is_none(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "0001_a.json"
    path.write_text(json.dumps({"machine_info": {"coregate": value}, "benchmarks": [entry()]}))
    with pytest.raises(CoregateError, match=r"machine_info\['coregate'\] is .*, not an object"):
        read_run(path)
    path.write_text(json.dumps({"machine_info": value, "benchmarks": [entry()]}))
    with pytest.raises(CoregateError, match="is damaged"):
        read_run(path)


def extra(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda found: found["extra_info"][FIELD].update({name: value})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda found: found["stats"].update(median=0), "latency_s is 0: nothing takes no time"),
        (lambda found: found["stats"].update(median=True), "latency_s is True, not a number"),
        (lambda found: found["stats"].update(median=10**400), r"is damaged \(OverflowError"),
        (lambda found: found.update(stats=[]), "is damaged"),
        (lambda found: found.update(fullname=["x"]), "is damaged"),
        (extra("metrics", [1]), "is damaged"),
        (extra("metrics", {"device_s": "x"}), "device_s is 'x', not a number"),
        (extra("counters", [1]), "damaged counters"),
        (extra("counters", {"graphs": "x"}), "damaged counters"),
        (extra("counters", {"graphs": NAN}), "damaged counters"),
        (extra("notes", "x"), "damaged notes"),
        (extra("notes", {"n": 1}), "damaged notes"),
        (extra("workload", None), "damaged workload"),
        (extra("schema", "x"), "is damaged"),
    ],
)
def test_a_damaged_row_is_refused(tmp_path: Path, damage: Callable[[dict[str, Any]], None], said: str) -> None:
    broken = entry()
    damage(broken)
    with pytest.raises(CoregateError, match=said) as raised:
        read_run(write_run(tmp_path / "0001_a.json", broken))
    assert "\n" not in str(raised.value)


def test_a_metric_of_0_is_none_that_is_judged_and_no_damage(tmp_path: Path) -> None:
    found = entry(metrics={"latency_s": 0.5, "peak_bytes": 0})
    assert read_run(write_run(tmp_path / "0001_a.json", found)).rows[found["fullname"]].metrics["peak_bytes"] == 0


def test_a_file_that_is_brackets_all_through_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "0001_a.json"
    path.write_text("[" * 100_000)
    with pytest.raises(CoregateError, match=r"is damaged \(RecursionError"):
        read_run(path)


@pytest.mark.parametrize(
    "change",
    [{"controls": "x"}, {"controls": {"copy": NAN}}, {"controls": {"copy": 0}}, {"software": []}, {"commit": 1}],
)
def test_compare_with_a_damaged_run_is_usage_and_no_verdict(project: Project, change: dict[str, Any]) -> None:
    path = record(project)
    document = json.loads(path.read_text())
    document["machine_info"]["coregate"] |= change
    path.write_text(json.dumps(document))
    result = project.time("--benchmark-compare")
    assert result.ret == 4
    told = "\n".join([*result.outlines, *result.errlines])
    assert f"machine_info['coregate']['{next(iter(change))}'] is" in told
    assert "Traceback" not in told
    assert "INTERNALERROR" not in told


def test_saving_beside_a_damaged_run_keeps_what_was_measured_and_says_so(project: Project) -> None:
    path = record(project)
    path.write_text("{")
    result = project.time("--benchmark-save=second")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["error: *0001_first.json is damaged*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert read_run(path.with_name("0002_second.json")).rows
