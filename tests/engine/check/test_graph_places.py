"""Whose line broke, the user's or a library's; and that listening to Dynamo's log disturbs nothing."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch._dynamo
from torch import nn

import perf
from perf.check.dynamo_log import BreakLog
from perf.check.graphs import count_graphs, watching, whole
from tests.engine.check.graph_toys import ROOT, Around, InLoop, Leaf, Raises, Whole, breaks, count, place

pytestmark = pytest.mark.usefixtures("clean_dynamo")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[ModuleType]:
    """A library of one file, installed in `site-packages` below a root."""
    folder = tmp_path / "env" / "site-packages"
    folder.mkdir(parents=True)
    lines = ["from torch import nn", "class Noisy(nn.Module):", "    def forward(self, x):", "        x = x + 1"]
    (folder / "noisy.py").write_text("\n".join([*lines, "        print('library')", "        return x * 2", ""]))
    sys.path.insert(0, str(folder))
    yield __import__("noisy")
    sys.path.remove(str(folder))
    del sys.modules["noisy"]


def test_a_break_inside_a_library_names_the_users_call_and_the_librarys_line(library: ModuleType) -> None:
    class Caller(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.noisy = library.Noisy()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.noisy(x - 1)
            return y * 2

    report = count(Caller())
    assert breaks(report) == [(place(Caller, "self.noisy(x - 1)"), 2, False)]  # the caller is split, and the library's
    assert report.breaks[0].reason.endswith("(in noisy.py:5)")
    assert (whole(Caller(), {"x": torch.ones(3, 4)}, root=ROOT) or "").endswith(place(Caller, "self.noisy(x - 1)"))


def test_a_break_in_a_module_that_is_all_library_is_named_by_the_library(library: ModuleType) -> None:
    assert breaks(count(library.Noisy())) == [("noisy.py:5", 1, False)]  # and not by this file, which only calls it


def test_places_are_relative_to_the_root_by_whatever_way_it_is_named(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT.parent)
    report = count_graphs(Leaf(), [{"x": torch.ones(3, 4)}], root=link)
    assert breaks(report) == [(f"{ROOT.name}/{place(Leaf, 'print')}", 1, True)]


def logging_state() -> list[object]:
    logs = [logging.getLogger(name) for name in (BreakLog.logger.name, "torch._dynamo", "torch")]
    limit = torch._dynamo.utils._compilation_metrics.maxlen
    return [limit, *[(log.level, log.propagate, list(log.handlers), log.isEnabledFor(logging.DEBUG)) for log in logs]]


def test_logging_is_put_back_after_a_count_and_after_an_error() -> None:
    before = logging_state()
    count(Leaf())
    assert logging_state() == before
    with pytest.raises(ValueError, match="no five"):
        count(Raises(), 5)
    assert logging_state() == before


def test_what_the_user_asked_to_log_is_still_logged_and_not_twice() -> None:
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    log, level = BreakLog.logger, BreakLog.logger.level
    log.addHandler(handler)
    try:
        log.setLevel(logging.WARNING)
        count(Leaf())
        assert heard == []
        log.setLevel(logging.DEBUG)
        count(Leaf())
        assert [place(Leaf, "print") in text for text in heard] == [True]
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def test_counts_are_the_same_whatever_torch_logs_asks_for(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import json, sys, torch\n"
        "from pathlib import Path\n"
        "from perf.check.graphs import count_graphs\n"
        "def noisy(x):\n"
        "    print(x.shape, file=sys.stderr)\n"
        "    return x + 1\n"
        "calls = [{'x': torch.ones(n, 4)} for n in (3, 5)]\n"
        "print(json.dumps(count_graphs(noisy, calls, root=Path(__file__).parent, dynamic=False).as_json()))\n"
    )
    asked = {"TORCH_LOGS": "graph_breaks,recompiles_verbose", "TORCHDYNAMO_VERBOSE": "1"}
    paths = {"PYTHONPATH": str(Path(perf.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "noisy.py"], cwd=tmp_path, env={**os.environ, **asked, **paths}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert [(item["where"], item["count"]) for item in report["breaks"]] == [("noisy.py:5", 2)]  # once for each shape
    said = "tensor 'x' size mismatch at index 0. expected 3, actual 5"
    assert [(item["where"], item["guard"]) for item in report["recompiles"]] == [
        ("noisy.py:4", said),
        ("noisy.py:5", said),
    ]
    assert "Graph break in user code" in run.stderr


def test_a_count_leaves_nothing_for_the_next() -> None:
    assert count(Leaf(), 3, 5) == count(Leaf(), 3, 5)
    compiled = torch.compile(Whole(), backend="eager")
    compiled(torch.ones(3, 4))
    count(Leaf())
    with watching(ROOT) as seen:
        compiled(torch.ones(3, 4))
    assert seen.report().graphs == 1  # Dynamo was reset, as documented: it is compiled again


def test_a_log_that_fell_silent_does_not_pass_for_a_whole_graph() -> None:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        split, eager = count(Around(Around(Leaf()))), count(InLoop())
    finally:
        logging.disable(before)
    assert breaks(split) == [("?", 3, False)]
    assert breaks(eager) == [(place(InLoop, "print"), 1, True)]


def test_a_call_to_a_disabled_function_is_a_break_at_the_call() -> None:
    silent = torch.compiler.disable(torch.nn.functional.relu)

    def caller(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = silent(x * 2)
        return y - 1

    report = count(caller)
    assert report.graphs == 2
    assert breaks(report) == [(place(caller, "silent(x"), 1, True)]
    assert "0x" not in report.breaks[0].reason.replace("0x…", "")  # an address would differ in every run
