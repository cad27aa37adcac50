"""What a side does for the parent, over a stand-in for the session: list, build, run; and whose code it runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perf.ab.bench import Bench, strays
from perf.check.parity import Parity
from perf.contract import Case
from perf.errors import CoregateError, UnsupportedError

CASE = Case("core", "tiny", "eager", "s", "cpu")
RIGHT = Parity(True, 0.0, 1.0, 99.0)


@dataclass
class Workbench:
    """`judge` is what checking parity does; every call of the runner is counted."""

    judge: Callable[[], Parity]
    calls: int = 0

    def parity(self, case: Case) -> Parity:
        return self.judge()

    def built(self, case: Case) -> Any:
        return SimpleNamespace(runner=self)

    def timed(self, case: Case) -> str:
        return "inputs"

    def run(self, prepared: str) -> None:
        assert prepared == "inputs"
        self.calls += 1


def raising(error: Exception) -> Callable[[], Parity]:
    def judge() -> Parity:
        raise error

    return judge


def bench(
    judge: Callable[[], Parity] = lambda: RIGHT, replaced: Path | None = None, root: Path = Path("/project")
) -> tuple[Bench, Workbench]:
    workbench = Workbench(judge)
    session: Any = SimpleNamespace(workbench=workbench, options=SimpleNamespace(root=root))
    return Bench(session, {CASE.key: CASE}, {"k": "no GPU"}, replaced), workbench


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    yield
    gc.enable()


def test_cases_come_with_their_clocks() -> None:
    answer = bench()[0].answer({"ask": "cases", "a field of later": 1})
    assert answer == {"cases": {CASE.key: ["latency_s", "cpu_s"]}, "skips": {"k": "no GPU"}}


def test_a_run_is_that_many_calls_of_what_was_built_and_the_collector_is_out_of_it() -> None:
    side, workbench = bench()
    assert side.answer({"ask": "build", "key": CASE.key}) == {"word": "ready", "why": ""}
    assert not gc.isenabled()
    before = workbench.calls
    durations = side.answer({"ask": "run", "key": CASE.key, "calls": 7})["durations"]
    assert workbench.calls == before + 7
    assert {name: len(values) for name, values in durations.items()} == {"latency_s": 7, "cpu_s": 7}
    assert all(value > 0 for values in durations.values() for value in values)


class Traced:
    """A kernel meter that finds what it is told to, once for each call it was given."""

    def __init__(self, found: dict[str, float]) -> None:
        self.found, self.calls = found, 0

    def of(self, calls: int) -> Any:
        self.calls = calls
        return self

    def measure(self, call: Callable[[], object]) -> dict[str, float]:
        return self.found


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        ({"device_s": 0.25, "kernels": 3.0}, [0.25]),
        ({}, "no kernel time: another profiler has CUPTI, or it does not use the GPU"),
    ],
)
def test_on_a_gpu_a_block_has_one_kernel_time_of_ten_calls(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, float], answer: object
) -> None:
    monkeypatch.setattr("perf.ab.bench.synchronise", lambda device: None)
    side, _ = bench()
    case, meter = replace(CASE, device="cuda"), Traced(found)
    side.cases, side.kernels = {case.key: case}, meter.of
    assert side.answer({"ask": "cases"})["cases"] == {case.key: ["latency_s", "device_s"]}
    assert side.answer({"ask": "build", "key": case.key})["word"] == "ready"
    said = side.answer({"ask": "run", "key": case.key, "calls": 300})
    assert meter.calls == 10
    assert said.get("error", "").endswith(str(answer)) if "error" in said else said["durations"]["device_s"] == answer


@pytest.mark.parametrize(
    ("judge", "answer"),
    [
        (lambda: Parity(False, 2.0, 1.0, 0.0, reason="far off"), {"word": "wrong", "why": "not at parity: far off"}),
        (raising(ValueError("shape")), {"word": "wrong", "why": "did not build: ValueError: shape"}),
        (raising(UnsupportedError("no axis")), {"word": "unsupported", "why": "no axis"}),
        (raising(CoregateError("mend the cache")), {"error": "mend the cache"}),
    ],
)
def test_what_is_not_right_is_not_run(judge: Callable[[], Parity], answer: dict[str, str]) -> None:
    side, workbench = bench(judge)
    assert side.answer({"ask": "build", "key": CASE.key}) == answer
    assert side.answer({"ask": "run", "key": CASE.key, "calls": 1})["error"].startswith(f"{CASE.key} is not built")
    assert workbench.calls == 0


def test_what_was_checked_before_is_not_checked_again() -> None:
    side, _ = bench(raising(AssertionError("checked again")))
    assert side.answer({"ask": "build", "key": CASE.key, "checked": True}) == {"word": "ready", "why": ""}


def test_a_request_of_a_later_protocol_is_named_with_those_there_are() -> None:
    error = bench()[0].answer({"ask": "flame"})["error"]
    assert error == "this side knows no request 'flame'; it knows cases, build, run: take a newer revision"


def test_what_comes_from_the_tree_that_a_checkout_stands_in_for_is_found() -> None:
    """A source layout, installed in place: the checkout's tests would run the working tree's library."""
    files = ["/home/me/project/src/mine.py", "/home/me/project/.venv/lib/torch.py", "/home/me/projector.py"]
    files += ["/home/me/project/tmp/checkout/src/mine.py", "/usr/lib/python/os.py"]
    modules: list[Any] = [SimpleNamespace(__file__=file) for file in files]
    modules += [SimpleNamespace(__file__=None), SimpleNamespace()]
    own = ("/home/me/project/tmp/checkout", "/home/me/project/.venv")
    assert strays(modules, Path("/home/me/project"), *own) == ["/home/me/project/src/mine.py"]


def test_a_checkout_that_runs_the_working_trees_code_is_refused(tmp_path: Path) -> None:
    """Here the tree that it stands in for is this very repository, whose `perf` runs it."""
    side, _ = bench(replaced=Path(__file__).parents[3], root=tmp_path)
    error = side.answer({"ask": "build", "key": CASE.key})["error"]
    assert "is the working tree's, not the revision's: put the revision's own folder first" in error
    side, _ = bench(replaced=tmp_path, root=tmp_path)
    assert side.answer({"ask": "build", "key": CASE.key})["word"] == "ready"
