"""Eager in a CUDA graph: what is captured, when, and what is replayed. The graph itself is a fake here; one that is
none is captured where there is a GPU."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from perf.contract import Blueprint, Core, Preset, Shape, Work
from perf.errors import UnsupportedError
from perf.variants.graphed import VARIANTS, GraphedRunner, capture

SHAPE = Shape("s", {"n": 2})


class Square(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


class Waits(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(x.sum())


def inputs(shape: Shape, seed: int) -> dict[str, torch.Tensor]:
    return {"x": torch.tensor([1.0, 2.0]) + seed}


def blueprint(build: type[nn.Module], device: str, impure: str = "") -> Blueprint:
    preset = Preset(build, inputs, (SHAPE,))
    core = Core("c", "s", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 1), impure=impure)
    return Blueprint(
        core=core, preset=preset, shape=SHAPE, device=device, cache=None,  # type: ignore[arg-type]
        module=lambda dtype: build().eval().to(device, getattr(torch, dtype)), example=lambda seed: inputs(SHAPE, seed),
    )  # fmt: skip


class Recorder:
    """As a graph: its outputs are one tensor, which a replay fills anew from where the inputs lie."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.events: list[str] = []
        self._failure = failure

    def __call__(self, call: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        if self._failure:
            raise self._failure
        self.events.append("captured")
        returned = torch.full_like(call(), torch.nan)

        def replay() -> None:
            self.events.append("replayed")
            returned.copy_(call())

        return returned, replay


def test_each_set_of_inputs_is_captured_once_and_then_read_where_it_lies() -> None:
    recorder = Recorder()
    runner = GraphedRunner(blueprint(Square, "cpu"), "float32", recorder)
    first, second = (runner.prepare(inputs(SHAPE, seed)) for seed in (0, 1))
    (kept,) = runner.outputs(runner.run(first))
    first["x"].fill_(3.0)
    assert runner.run(first).tolist() == [9.0, 9.0]
    assert runner.run(second).tolist() == [4.0, 9.0]
    assert kept.tolist() == [1.0, 4.0]
    assert recorder.events == ["captured", "replayed", "replayed", "captured", "replayed"]
    kept_alive = weakref.ref(first["x"])
    del first
    assert kept_alive() is not None
    runner.close()
    assert kept_alive() is None


def test_what_cannot_be_captured_is_a_reason_and_what_is_broken_is_not() -> None:
    reason = "CUDA error: operation not permitted when stream is capturing"
    runner = GraphedRunner(blueprint(Square, "cpu"), "float32", Recorder(RuntimeError(reason)))
    with pytest.raises(UnsupportedError, match=f"no CUDA graph can hold this core: RuntimeError: {reason}"):
        runner.run(runner.prepare(inputs(SHAPE, 0)))
    runner = GraphedRunner(blueprint(Square, "cpu"), "float32", Recorder(RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        runner.run(runner.prepare(inputs(SHAPE, 0)))


class Card:
    """What `capture` asks of `torch.cuda`, in the order in which it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends: bool = True) -> None:
        self.events: list[str] = []
        self._ends = ends
        own = SimpleNamespace(wait_stream=lambda other: self.events.append("default waits"))
        aside = SimpleNamespace(wait_stream=lambda other: self.events.append("aside waits"))
        fakes = {
            "CUDAGraph": lambda: self,
            "graph_pool_handle": lambda: (0, 7),
            "Stream": lambda: aside,
            "current_stream": lambda: own,
            "current_device": lambda: 3,
            "stream": self._stream,
            "synchronize": lambda: self.events.append("all done"),
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", self._end_allocating, raising=False)

    @contextmanager
    def _stream(self, stream: object) -> Iterator[None]:
        self.events.append("aside")
        try:
            yield
        finally:
            self.events.append("default")

    def _end_allocating(self, device: int, pool: tuple[int, int]) -> None:
        self.events.append(f"pool {pool} of {device} ended")

    def capture_begin(self, pool: tuple[int, int]) -> None:
        self.events.append(f"begin {pool}")

    def capture_end(self) -> None:
        self.events.append("end")
        if not self._ends:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    def replay(self) -> None:
        self.events.append("replay")


def test_a_call_is_warmed_up_aside_and_then_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    returned, replay = capture(lambda: card.events.append("call") or 5)
    assert returned == 5
    warmed = ["aside waits", "aside", "call", "call", "call", "all done"]
    assert card.events == [*warmed, "begin (0, 7)", "call", "end", "default", "default waits"]
    replay()
    assert card.events[-1] == "replay"


def test_a_call_that_fails_leaves_stream_and_allocator_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, ends=False)

    def call() -> None:
        if any(event.startswith("begin") for event in card.events):
            raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted"):
        capture(call)
    assert card.events[-4:] == ["begin (0, 7)", "end", "pool (0, 7) of 3 ended", "default"]


def test_what_is_told_only_when_the_capture_ends_leaves_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch, ends=False)
    with pytest.raises(RuntimeError, match="previous error during capture"):
        capture(lambda: card.events.append("call"))
    assert card.events[-3:] == ["end", "pool (0, 7) of 3 ended", "default"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captures on a CUDA device, and there is none")
def test_on_a_gpu_a_graph_reads_its_inputs_in_place_and_waiting_cannot_be_captured() -> None:
    runner = GraphedRunner(blueprint(Square, "cuda"), "float32")
    prepared = runner.prepare(inputs(SHAPE, 0))
    assert runner.run(prepared).tolist() == [1.0, 4.0]
    prepared["x"].fill_(3.0)
    assert runner.run(prepared).tolist() == [9.0, 9.0]
    runner.close()
    runner = GraphedRunner(blueprint(Waits, "cuda"), "float32")
    before = torch.cuda.current_stream()
    with pytest.raises(UnsupportedError, match="no CUDA graph can hold this core"):
        runner.run(runner.prepare(inputs(SHAPE, 0)))
    runner.close()
    assert torch.cuda.current_stream() == before
    torch.cuda.empty_cache()
    runner = GraphedRunner(blueprint(Square, "cuda"), "float32")
    assert runner.run(runner.prepare(inputs(SHAPE, 1))).tolist() == [4.0, 9.0]
    runner.close()


def test_an_impure_core_is_not_tried() -> None:
    with pytest.raises(UnsupportedError, match="not captured: reads a value"):
        GraphedRunner(blueprint(Waits, "cpu", impure="reads a value"), "float32", Recorder())


def test_it_is_for_cuda_alone() -> None:
    reasons = {made.name: made.missing("cpu") for made in VARIANTS if made.missing is not None}
    assert set(reasons) == {"graphed-eager-fp32", "graphed-eager-bf16", "graphed-eager-fp16"}
    assert all(reasons.values())
