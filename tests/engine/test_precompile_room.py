"""Who compiles beforehand, and who counts: what waits for room, and whose question is whose, by fakes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from threading import Thread, Timer
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from torch import nn

from perf import precompile
from perf.check.graph_report import GraphReport
from perf.contract import Case, GraphSubject, LoadSubject, Preset, Variant
from perf.errors import first_line
from perf.gate import Gate
from perf.items import _rank, settle_before, to_run
from perf.measure.ledger import Ledger
from perf.outcome import Row
from perf.precompile import worth_it
from perf.room import Room
from perf.session import Session
from perf.wholeness import graphs


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session of cores with that many weights in float32, on a device with room for 1,000 bytes: 80 % of what it
    has; up to 20 of them are small. One core cannot be built without values."""
    monkeypatch.setattr(precompile, "memory_bytes", lambda device: 1_250)
    monkeypatch.setattr(precompile, "SHARE", 0.8)
    monkeypatch.setattr(precompile, "SMALL", 0.02)
    weights = {"small": 5, "large": 100, "larger": 500}
    modules = {core: nn.Linear(size, 1, bias=False) for core, size in weights.items()}
    workbench = Mock(weightless=lambda core, preset: modules[core])
    return Mock(workbench=workbench, options=Mock(precompile=1))


@pytest.mark.parametrize(("core", "taken"), [("small", []), ("large", [0.4]), ("larger", [2.0]), ("odd", [])])
def test_what_is_large_waits_for_room(
    monkeypatch: pytest.MonkeyPatch, cores: Any, core: str, taken: list[float]
) -> None:
    room = MagicMock()
    monkeypatch.setattr(precompile, "_HERE", [precompile.Here(cores, room)])
    assert precompile.compile_case(f"{core}/full/any/s/cpu").why == ""
    assert cores.workbench.first_outputs.call_count == cores.workbench.close.call_count == 1
    assert precompile.answer(lambda run, subject: subject, subject(core)) == subject(core)  # type: ignore[arg-type,return-value]
    assert [call.args[0] for call in room.taken.call_args_list] == 2 * taken


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_process_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, cores: Any, ending: type[BaseException]
) -> None:
    cores.workbench.first_outputs.side_effect = ending("no licence")
    monkeypatch.setattr(precompile, "_HERE", [precompile.Here(cores, Mock())])
    assert precompile.compile_case("small/full/any/s/cpu").why == f"{ending.__name__}: no licence"
    assert cores.workbench.close.call_count == 1


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


def asked(run: Any, futures: dict[str, Future[Any]]) -> precompile.Precompiler:
    processes = precompile.Precompiler.__new__(precompile.Precompiler)
    processes._run, processes._answers = run, {(graphs, subject(core)): future for core, future in futures.items()}
    return processes


def test_a_question_that_nobody_has_begun_with_is_the_runs_own(cores: Any) -> None:
    begun, failed, broken, cancelled, small = (Future[Any]() for _ in range(5))
    for future in (begun, failed, broken):
        future.set_running_or_notify_cancel()
    begun.set_result(GraphReport(3, (), (), 0, 0, 1))
    failed.set_result(None)
    broken.set_exception(BrokenProcessPool())
    cancelled.cancel()
    futures = {"begun": begun, "failed": failed, "broken": broken, "cancelled": cancelled, "small": small}
    processes = asked(cores, futures)
    found = {core: processes.answer(graphs, subject(core)) for core in (*futures, "unknown")}
    assert found.pop("begun") == GraphReport(3, (), (), 0, 0, 1)
    assert found == dict.fromkeys(("failed", "broken", "cancelled", "small", "unknown"))
    assert small.cancelled()


def test_what_needs_room_is_waited_for(cores: Any) -> None:
    waiting = Future[Any]()
    processes = asked(cores, {"large": waiting})
    Timer(0.1, waiting.set_result, ("three graphs",)).start()
    assert processes.answer(graphs, subject("large")) == "three graphs"


def test_a_run_counts_itself_what_it_has_no_answer_to() -> None:
    run = Session.__new__(Session)
    run.background, run.settled = None, False
    here = Mock(return_value="counted here")
    assert run.ask(here, subject("c")) == "counted here"
    run.background = Mock(answer=lambda *_: None)
    assert run.ask(here, subject("c")) == "counted here"
    run.background = Mock(answer=lambda *_: "counted there")
    assert run.ask(here, subject("c")) == "counted there"
    assert (here.call_count, run.settled) == (2, False)


def test_what_fails_beside_others_is_counted_again_beside_nobody() -> None:
    run = Session.__new__(Session)
    run.compiled, run.workbench = set(), Mock(ledger=Ledger())
    run.background, run.settled = Mock(answer=lambda *_: None, wait=lambda: ["compiled"]), False
    full = MemoryError("the card is full")
    assert run.ask(Mock(side_effect=[full, "counted here"]), subject("c")) == "counted here"
    assert (run.settled, run.compiled) == (True, {"compiled"})
    once = Mock(side_effect=[full, "counted here"])
    with pytest.raises(MemoryError):
        run.ask(once, subject("c"))
    assert once.call_count == 1


@pytest.mark.parametrize("ending", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_cannot_be_counted_elsewhere_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, cores: Any, ending: type[BaseException]
) -> None:
    monkeypatch.setattr(precompile, "_HERE", [precompile.Here(cores, Mock())])
    assert precompile.answer(Mock(side_effect=ending("no")), subject("small")) is None
    cores.workbench.weightless = Mock(side_effect=ending("no"))
    assert precompile.answer(Mock(side_effect=ValueError), subject("small")) is None


def subject(core: str) -> GraphSubject:
    return GraphSubject(core, "tiny", "cpu", None)


def test_a_variant_is_compiled_once_for_all_shapes_unless_it_is_built_for_one_and_the_largest_first() -> None:
    variants = {
        "eager-fp32": Variant("eager-fp32", lambda plan: None, family="eager"),  # type: ignore[arg-type,return-value]
        "any": Variant("any", lambda plan: None, family="compiled"),  # type: ignore[arg-type,return-value]
        "one": Variant("one", lambda plan: None, family="onnx", fixed_shape=True),  # type: ignore[arg-type,return-value]
    }
    presets = {core: SimpleNamespace(reference=of) for core, of in (("small", "float64"), ("large", "float32"))}
    bench = SimpleNamespace(describe=lambda case: (None, presets[case.core], None, None))
    run: Any = SimpleNamespace(catalogue=SimpleNamespace(variants=variants), workbench=bench)
    cases = [Case(core, "p", variant, shape, "cpu") for core in presets for variant in variants for shape in ("s", "t")]
    assert [(case.core, case.variant, case.shape) for case in worth_it(run, cases)] == [
        *(("large", "any", "s"), ("large", "one", "s"), ("large", "one", "t")),
        *(("small", "any", "s"), ("small", "one", "s"), ("small", "one", "t")),
    ]


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_process_while_it_is_asked_for_its_size_has_none(cores: Any, ending: type[BaseException]) -> None:
    cores.workbench.weightless = Mock(side_effect=ending("no licence"))
    with pytest.raises(KeyboardInterrupt) if ending is KeyboardInterrupt else nullcontext():
        assert precompile.share(cores, subject("c")) == 0


def test_a_run_says_what_was_compiled_in_vain() -> None:
    notes = {"a": "1 compiled", "b": "1 from the cache", "c": "1 compiled, 1 from the cache", "d": "2 compiled"}
    rows = {key: Row(key, {}, notes={"compile_cache": note}) for key, note in notes.items()} | {"e": Row("e", {})}
    run: Any = SimpleNamespace(compiled={"a", "b", "c", "e", "gone"}, rows=rows, workbench=Mock(ledger=Ledger()))
    gate = Gate(run, None, [], Mock(), Mock())
    assert gate._cost()[1:] == ["compiled beforehand, and compiled again: 2 of 4, the first a"]
    run.compiled = {"b"}
    assert len(gate._cost()) == 1


def test_the_graphs_of_what_is_large_come_last_of_all_graphs() -> None:
    """No other test runs beside a compiler."""
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
        settle_before(run, one)
        waited.append((next(iter(one.callspec.params)), run.settle.call_count))
    assert waited == [("graph_subject", 0), ("plan_subject", 0), ("load_subject", 1)]


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
