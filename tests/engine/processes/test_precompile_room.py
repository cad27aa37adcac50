"""Who compiles beforehand: what, in which order, and what waits for room on the device. By fakes."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from torch import nn

from perf import compiling
from perf.contract import Case, GraphSubject, LoadSubject, Preset, Variant
from perf.errors import first_line
from perf.gate import Gate
from perf.items import _rank, make_ready, to_run
from perf.measure.ledger import Ledger
from perf.outcome import Row
from perf.precompile import Precompiler, _ended, worth_it
from perf.room import Room, Whereabouts
from perf.workbench import Workbench


@pytest.fixture
def workbench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of cores with that many weights in float32, on a device with room for 1,000 bytes, 80 % of what it has; up to 20
    of them are small. One core cannot be built without values."""
    monkeypatch.setattr(compiling, "memory_bytes", lambda device: 1_250)
    monkeypatch.setattr(compiling, "SHARE", 0.8)
    monkeypatch.setattr(compiling, "SMALL", 0.02)
    weights = {"small": 5, "large": 100, "larger": 500}
    modules = {core: nn.Linear(size, 1, bias=False) for core, size in weights.items()}
    return Mock(weightless=lambda core, preset: modules[core])


def here(workbench: Any, room: Any) -> list[compiling.Here]:
    return [compiling.Here(Mock(workbench=workbench), room, Mock())]


@pytest.mark.parametrize(("core", "taken"), [("small", []), ("large", [0.4]), ("larger", [2.0]), ("odd", [])])
def test_what_is_large_waits_for_room(
    monkeypatch: pytest.MonkeyPatch, workbench: Any, core: str, taken: list[float]
) -> None:
    room = MagicMock()
    monkeypatch.setattr(compiling, "_HERE", here(workbench, room))
    assert compiling.compile_all([f"{core}/full/any/s/cpu"]).why == ()
    assert workbench.first_outputs.call_count == workbench.close.call_count == 1
    assert [call.args[0] for call in room.taken.call_args_list] == taken


@pytest.mark.parametrize("where", ["first_outputs", "weightless"])
@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_process_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, workbench: Any, ending: type[BaseException], where: str
) -> None:
    setattr(workbench, where, Mock(side_effect=ending("no licence")))
    monkeypatch.setattr(compiling, "_HERE", here(workbench, Mock()))
    key = "small/full/any/s/cpu"
    assert compiling.compile_all([key]).why == (f"{key}, {ending.__name__}: no licence",)
    assert workbench.close.call_count == 1


def test_shapes_are_called_in_turn_also_after_one_that_fails(monkeypatch: pytest.MonkeyPatch, workbench: Any) -> None:
    keys = [f"small/full/any/{shape}/cpu" for shape in "rst"]
    workbench.first_outputs = Mock(side_effect=[(), RuntimeError("no memory"), ()])
    workbench.close = Mock(side_effect=RuntimeError("captures underway"))
    monkeypatch.setattr(compiling, "_HERE", here(workbench, Mock()))
    monkeypatch.setattr(compiling, "perf_counter", Mock(side_effect=[1.0, 2.0, 5.4]))
    found = compiling.compile_all(keys)
    assert [call.args[0].key for call in workbench.first_outputs.call_args_list] == keys
    assert found.keys == (keys[0], keys[2])
    assert str(found) == (
        f"{keys[0]}, {keys[2]}: 3 s; {keys[1]}, RuntimeError: no memory; giving it up, RuntimeError: captures underway"
    )


def test_room_is_for_as_many_as_fit_and_what_is_too_large_is_alone() -> None:
    room, held = Room(multiprocessing.get_context("spawn")), []

    def take(share: float) -> None:
        with room.taken(share):
            held.append(share)

    def taking(share: float) -> Thread:
        thread = Thread(target=take, args=(share,), daemon=True)
        thread.start()
        return thread

    with room.taken(0.6):
        taking(0.4).join(60)
        waiting = [taking(0.41), taking(1.5)]
        for thread in waiting:
            thread.join(0.2)
        assert held == [0.4]
    for thread in waiting:
        thread.join(60)
    assert sorted(held) == [0.4, 0.41, 1.5]


def test_where_a_process_was_is_known_after_it(tmp_path: Path) -> None:
    at = Whereabouts(tmp_path)
    at.begin("a/b/c/d/cpu")
    at.begin("a/b/c/e/cpu")
    (tmp_path / "1").touch()
    assert (at.of(os.getpid()), at.of(1), at.of(2), at.of(None)) == ("a/b/c/e/cpu", "", "", "")


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        ([-15, -9, -11, 0], (2, -11)),  # of several a crash
        ([-15, -9], (1, -9)),
        ([-15, 3], (1, 3)),
        ([-9, 0], (1, 0)),  # it had no reason to end
        ([-15, -15], (None, None)),
    ],
)
def test_who_ended_first_is_told_from_those_whom_the_pool_ended(
    codes: list[int], found: tuple[int | None, int]
) -> None:
    run: Any = SimpleNamespace(_own=[SimpleNamespace(pid=pid, exitcode=code) for pid, code in enumerate(codes)])
    assert Precompiler._first_to_end(run) == found


@pytest.mark.parametrize(
    ("code", "said"),
    [(-11, "was killed by SIGSEGV"), (3, "ended with status 3"), (0, "ended with status 0"), (None, "ended")],
)
def test_how_a_process_ended_is_said(code: int | None, said: str) -> None:
    assert _ended(code) == said


@pytest.mark.parametrize(
    ("at", "blamed", "left"),
    [(0, {"r": True, "s": True, "t": True}, []), (1, {"s": False}, ["r", "t"])],
)
def test_a_second_crash_is_the_cases_own_and_the_variants_where_it_was_its_first(
    at: int, blamed: dict[str, bool], left: list[str]
) -> None:
    cases = [Case("small", "full", "any", shape, "cpu") for shape in "rst"]
    run: Any = SimpleNamespace(_suspects=[], crashed={}, _tell=Mock(), _say=Mock())
    asked = (run, cases, cases[at].key, -11)
    assert Precompiler._what_is_tried(*asked) == [cases]
    assert not run.crashed
    again = Precompiler._what_is_tried(*asked)
    assert [case.shape for tried in again for case in tried] == left
    assert {Case.parse(key).shape: crash.whole for key, crash in run.crashed.items()} == blamed
    assert {crash.why for crash in run.crashed.values()} == {
        f"the process that compiled {cases[at].key} was killed by SIGSEGV, twice"
    }


def test_who_is_killed_from_outside_is_left_to_the_run() -> None:
    cases = [Case("small", "full", "any", "r", "cpu")]
    run: Any = SimpleNamespace(_suspects=[], crashed={}, _tell=Mock(), _say=Mock())
    assert Precompiler._what_is_tried(run, cases, cases[0].key, -9) == []
    assert not run._suspects
    assert not run.crashed


def test_a_variant_is_compiled_once_for_all_shapes_unless_it_is_built_for_one_and_the_largest_first() -> None:
    variants = {
        "eager-fp32": Variant("eager-fp32", lambda plan: None, family="eager"),  # type: ignore[arg-type,return-value]
        "any": Variant("any", lambda plan: None, family="compiled"),  # type: ignore[arg-type,return-value]
        "one": Variant("one", lambda plan: None, family="onnx", fixed_shape=True),  # type: ignore[arg-type,return-value]
    }
    presets = {core: SimpleNamespace(reference=of) for core, of in (("small", "float64"), ("large", "float32"))}
    catalogue: Any = SimpleNamespace(variants=variants)
    place = Workbench(catalogue, 0, Path(), Path()).place
    bench = SimpleNamespace(describe=lambda case: (None, presets[case.core], None, None), place=place)
    run: Any = SimpleNamespace(catalogue=catalogue, workbench=bench)
    cases = [Case(core, "p", variant, shape, "cpu") for core in presets for variant in variants for shape in ("s", "t")]
    found = worth_it(run, [*cases, *cases])  # by parity and by latency
    assert [(alike[0].core, alike[0].variant, [case.shape for case in alike]) for alike in found] == [
        *(("large", "any", ["s", "t"]), ("large", "one", ["s"]), ("large", "one", ["t"])),
        *(("small", "any", ["s", "t"]), ("small", "one", ["s"]), ("small", "one", ["t"])),
    ]


def test_a_run_says_what_was_compiled_in_vain() -> None:
    notes = {"a": "1 compiled", "b": "1 from the cache", "c": "1 compiled, 1 from the cache", "d": "2 compiled"}
    rows = {key: Row(key, {}, notes={"compile_cache": note}) for key, note in notes.items()} | {"e": Row("e", {})}
    run: Any = SimpleNamespace(compiled={"a", "b", "c", "e", "gone"}, rows=rows, workbench=Mock(ledger=Ledger()))
    gate = Gate(run, None, [], Mock(), Mock())
    assert gate._cost()[1:] == ["compiled beforehand, and compiled again: 2 of 4, the first a"]
    run.compiled = {"b"}
    assert len(gate._cost()) == 1


def test_the_graphs_of_what_is_large_wait_for_those_who_compile() -> None:
    """They come last of all graphs, and no other test runs beside a compiler."""
    presets = {
        "tiny": Preset(nn.Identity, lambda shape, seed: {}, ()),
        "full": Preset(nn.Identity, lambda s, x: {}, (), "float32"),
    }
    run: Any = Mock(catalogue=SimpleNamespace(cores={"c": SimpleNamespace(presets=presets)}), cases=[])

    def item(**params: object) -> Any:
        return SimpleNamespace(callspec=SimpleNamespace(params=params), get_closest_marker=lambda name: None)

    large, small = (GraphSubject("c", preset, "cpu", None) for preset in ("full", "tiny"))
    items = [
        item(plan_subject=large),
        item(graph_subject=small),
        item(load_subject=LoadSubject("c", "tiny", "cpu", ".pt")),
    ]
    waited = []
    for one in sorted(items, key=_rank(run)):
        run.settle.reset_mock()
        make_ready(run, one)
        waited.append((next(iter(one.callspec.params)), run.settle.call_count))
    assert waited == [("graph_subject", 0), ("plan_subject", 1), ("load_subject", 1)]


def test_an_error_that_cannot_say_what_it_is_has_its_kind() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("no str")

    assert first_line(MuteError()) == "MuteError: "


def test_what_runs_in_processes_of_its_own_is_not_compiled_beforehand() -> None:
    def item(variant: str, *marks: str) -> Any:
        case = Case("c", "p", variant, "s", "cpu")
        found = SimpleNamespace(params={"case": case})
        return SimpleNamespace(callspec=found, get_closest_marker=lambda name: name if name in marks else None)

    option = SimpleNamespace(collectonly=False, setuponly=False, setupplan=False)
    items = [item("a", "latency"), item("b", "coldstart"), item("c", "skip"), item("a", "parity")]
    session: Any = SimpleNamespace(config=SimpleNamespace(option=option), items=items)
    assert [case.variant for case in to_run(session)] == ["a"]
