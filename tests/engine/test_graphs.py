"""Each module here has a number of graphs, breaks and recompiles that follows from how it is written."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters as dynamo_counters

from perf.check.dynamo_log import BreakLog
from perf.check.graphs import Break, GraphReport, Recompile, count_graphs, watching, whole
from perf.contract import Axis

ROOT = Path(__file__).parent
EAGER = "[the whole function runs eagerly"


def place(of: Callable[..., Any] | type, snippet: str) -> str:
    """`test_graphs.py:LINE` of the one line in the source of `of` that holds `snippet`."""
    lines, first = inspect.getsourcelines(of)
    found = [first + offset for offset, line in enumerate(lines) if snippet in line]
    assert len(found) == 1, (snippet, found)
    return f"{Path(inspect.getsourcefile(of) or '').name}:{found[0]}"


def count(module: Callable[..., Any], *rows: int, **options: Any) -> GraphReport:
    """Counts over one call for each of `rows`, with a tensor of rows × 4 named x."""
    return count_graphs(module, [{"x": torch.ones(n, 4)} for n in rows or (3,)], root=ROOT, **options)


def breaks(report: GraphReport) -> list[tuple[str, int, bool]]:
    return [(item.where, item.count, item.own) for item in report.breaks]


class Whole(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


class Leaf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("leaf")
        return x * 2


class Middle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = Leaf()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leaf(x.sin()).cos()


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.middle = Middle()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.middle(x - 1) - 3


class ThreePlaces(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        print("first")
        x = x + 1
        print("second")
        x = x + 1
        print("third")
        return x + 1


def shout(x: torch.Tensor) -> torch.Tensor:
    print("shout")
    return x + 1


class OnePlaceThrice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = shout(x * 2)
        x = shout(x * 3)
        x = shout(x * 4)
        return x * 5


class InLoop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + 1
            print("in a loop")
        return x


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Leaf() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class BeforeAnyOperator(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("before")
        return x + 1


class InNoGrad(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with torch.no_grad():
            y = y * 2
            print("in no_grad")
            y = y + 3
        return y


class Manager:
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> None: ...


class InWith(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with Manager():
            y = y * 2
            print("in a with")
        return y


class InTry(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            y = x * 2
            print("in a try")
        finally:
            y = x + 3
        return y


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 5:
            raise ValueError("no five")
        return x + 1


class Catches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            raise KeyError("inside")
        except KeyError:
            return x + 1


class Specialises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 4 else x - 1


class Flag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.times = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.times = self.times + 1
        return x * self.times


@pytest.fixture(autouse=True)
def _dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_a_module_without_breaks_is_one_graph() -> None:
    assert count(Whole()) == GraphReport(1, (), (), 0, 0, calls=1)


def test_a_function_that_takes_keywords_will_do() -> None:
    assert count(shout).counters()["graph_breaks"] == 1
    assert breaks(count(shout)) == [(place(shout, "print"), 1, True)]


def test_a_break_splits_a_graph_in_two() -> None:
    report = count(Leaf())
    assert report.graphs == 2
    assert breaks(report) == [(place(Leaf, "print"), 1, True)]
    assert "print" in report.breaks[0].reason
    assert "\n" not in report.breaks[0].reason
    assert EAGER not in report.breaks[0].reason


def test_three_breaks_make_four_graphs() -> None:
    report = count(ThreePlaces())
    assert report.graphs == 4
    assert breaks(report) == [(place(ThreePlaces, word), 1, True) for word in ("first", "second", "third")]


def test_a_break_in_a_nested_module_breaks_every_function_around_it() -> None:
    report = count(Outer())
    assert breaks(report) == [(place(Leaf, "print"), 3, True)]
    assert report.graphs == 6  # each of the three forwards in two parts, an operator in each


def test_one_line_reached_from_three_calls() -> None:
    report = count(OnePlaceThrice())
    assert breaks(report) == [(place(shout, "print"), 4, True)]  # three times in forward, once in shout itself
    assert report.graphs == 5  # forward in four parts; shout has no operator before its print, one after


def test_a_break_in_a_loop_leaves_the_function_to_eager() -> None:
    report = count(InLoop())
    assert report.graphs == 0
    assert breaks(report) == [(place(InLoop, "print"), 1, True)]
    assert EAGER in report.breaks[0].reason


def test_a_loop_over_blocks_is_left_to_eager_and_its_block_is_split() -> None:
    report = count(Blocks())
    assert report.graphs == 2  # Leaf in two parts, the same two for all three blocks
    assert breaks(report) == [(place(Leaf, "print"), 1, True)] * 2
    assert [EAGER in item.reason for item in report.breaks] == [True, False]


def test_a_break_before_any_operator_leaves_one_graph() -> None:
    report = count(BeforeAnyOperator())
    assert report.graphs == 1
    assert breaks(report) == [(place(BeforeAnyOperator, "print"), 1, True)]


def test_a_break_in_a_with_block_that_dynamo_knows_is_split() -> None:
    report = count(InNoGrad())
    assert report.graphs == 2
    assert breaks(report) == [(place(InNoGrad, "print"), 1, True)]


@pytest.mark.parametrize("module", [InWith, InTry])
def test_a_break_where_dynamo_cannot_resume_leaves_the_function_to_eager(module: type[nn.Module]) -> None:
    report = count(module())
    assert report.graphs == 0
    assert breaks(report) == [(place(module, "print"), 1, True)]
    assert EAGER in report.breaks[0].reason


def test_a_data_dependent_branch_breaks_once_and_compiles_each_side_that_is_taken() -> None:
    where = place(Branch, "if x.sum()")
    one_side = count_graphs(Branch(), [{"x": torch.ones(3, 4)}] * 2, root=ROOT)
    assert (one_side.graphs, breaks(one_side)) == (2, [(where, 1, True)])
    both = count_graphs(Branch(), [{"x": torch.ones(3, 4)}, {"x": -torch.ones(3, 4)}], root=ROOT)
    assert (both.graphs, breaks(both)) == (3, [(where, 1, True)])
    assert both.breaks[0].reason.startswith("Data-dependent branching: ")


def test_a_call_to_a_disabled_function_is_a_break_at_the_call() -> None:
    silent = torch.compiler.disable(shout)

    def caller(x: torch.Tensor) -> torch.Tensor:
        return silent(x * 2) - 1

    report = count(caller)
    assert report.graphs == 2
    assert breaks(report) == [(place(caller, "silent(x"), 1, True)]
    assert "0x" not in report.breaks[0].reason.replace("0x…", "")


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
            y = x - 1
            return self.noisy(y)

    report = count(Caller())
    assert breaks(report) == [(place(Caller, "self.noisy(y)"), 2, False)]  # the caller is split, and the library's
    assert report.breaks[0].reason.endswith("(in noisy.py:5)")
    assert (whole(Caller(), {"x": torch.ones(3, 4)}, root=ROOT) or "").endswith(place(Caller, "self.noisy(y)"))


def test_a_break_in_a_module_that_is_all_library_is_named_by_the_library(library: ModuleType, tmp_path: Path) -> None:
    report = count_graphs(library.Noisy(), [{"x": torch.ones(3, 4)}], root=tmp_path)
    assert breaks(report) == [("noisy.py:5", 1, False)]


def test_places_are_relative_to_the_root_by_whatever_way_it_is_named(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT.parent)
    report = count_graphs(Leaf(), [{"x": torch.ones(3, 4)}], root=link)
    assert breaks(report) == [(f"{ROOT.name}/{place(Leaf, 'print')}", 1, True)]


def test_static_shapes_recompile_for_each() -> None:
    report = count(Whole(), 3, 5, 5, 7, dynamic=False)
    where, said = place(Whole, "def forward"), "tensor 'x' size mismatch at index 0. expected {}, actual {}"
    assert report.graphs == 3
    assert report.recompiles == (Recompile(where, said.format(3, 5), 1), Recompile(where, said.format(5, 7), 1))
    assert report.breaks == ()


def test_shapes_recompile_once_where_dynamo_decides_and_never_where_they_are_dynamic() -> None:
    assert count(Whole(), 3, 5, 7, 9).counters()["recompiles"] == 1
    assert count(Whole(), 3, 5, 7, 9, dynamic=True) == GraphReport(1, (), (), 0, 0, calls=4)


def test_a_guard_is_one_line_without_numbers_that_differ_between_runs() -> None:
    def apply(x: torch.Tensor, fn: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return fn(x)

    x = torch.ones(3, 4)
    report = count_graphs(apply, [{"x": x, "fn": fn} for fn in (torch.sin, torch.cos)], root=ROOT)
    guard = report.recompiles[0].guard
    assert guard.startswith("___check_obj_id(fn, …)")
    assert "\n" not in guard
    assert ROOT.name not in guard


def test_a_counter_in_the_module_recompiles_with_the_line_that_reads_it() -> None:
    report = count(Flag(), 3, 3)
    assert [item.where for item in report.recompiles] == [place(Flag, "def forward")]
    assert report.recompiles[0].guard == "self.times == 1  # self.times = self.times + 1"


def test_marks_make_one_graph_and_leave_the_tensors_as_they_were() -> None:
    calls = [{"x": torch.ones(n, 4)} for n in (3, 5, 7)]
    report = count_graphs(Whole(), calls, root=ROOT, marks={"x": {0: Axis("rows", 2, 64)}})
    assert report == GraphReport(1, (), (), 0, 0, calls=3)
    assert [call["x"].__dict__ for call in calls] == [{}, {}, {}]


def test_marks_of_an_input_that_is_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="marks name y, which is no input: the inputs are x"):
        count(Whole(), marks={"y": {0: Axis("rows")}})


def test_past_the_recompile_limit_nothing_is_compiled_and_that_is_said() -> None:
    with torch._dynamo.config.patch(recompile_limit=2):
        report = count(Whole(), 3, 5, 7, 9, 11, dynamic=False)
    assert (report.graphs, report.limit_hits, report.counters()["recompiles"]) == (2, 1, 1)
    assert report.breaks == ()


def test_what_a_call_raises_is_raised_with_the_number_of_the_call() -> None:
    with pytest.raises(ValueError, match="no five") as caught:
        count(Raises(), 3, 5, 7, dynamic=False)
    assert caught.value.__notes__ == ["in call 2 of 3 while counting graphs"]


def test_an_exception_that_the_module_catches_breaks_nothing() -> None:
    assert count(Catches()) == GraphReport(1, (), (), 0, 0, calls=1)


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
        count(Leaf())
        assert heard == []
        log.setLevel(logging.DEBUG)
        count(Leaf())
        assert [f"{Path(__file__).name}:" in text for text in heard] == [True]
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def test_a_count_leaves_nothing_for_the_next() -> None:
    assert count(Outer(), 3, 5) == count(Outer(), 3, 5)
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
        split, eager = count(Outer()), count(InLoop())
    finally:
        logging.disable(before)
    assert breaks(split) == [("?", 3, False)]
    assert breaks(eager) == [(place(InLoop, "print"), 1, True)]


def test_fullgraph_is_refused_with_what_to_use() -> None:
    with pytest.raises(TypeError, match=r"use whole\(\)"):
        count(Whole(), fullgraph=True)


def test_a_watch_counts_any_backend_and_agrees_with_the_backend_itself() -> None:
    compiled = 0

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> Callable[..., Any]:
        nonlocal compiled
        compiled += 1
        dynamo_counters["inductor"]["cudagraph_skips"] += 2
        return graph.forward

    earlier = torch.compile(Whole(), backend="eager")
    earlier(torch.ones(3, 4))
    module = torch.compile(Outer(), backend=backend)
    with watching(ROOT) as seen:
        module(torch.ones(3, 4))
        halfway = seen.report()
        earlier(torch.ones(3, 4))
        module(torch.ones(3, 4))
    module(torch.ones(5, 4))
    report = seen.report(calls=2)
    assert breaks(report) == [(place(Leaf, "print"), 3, True)]
    assert (report.graphs, report.cudagraph_skips, report.calls) == (6, 12, 2)
    assert (halfway.breaks, halfway.graphs) == (report.breaks, 6)
    assert compiled == 12  # and six more outside, for the second shape


def test_watches_nest() -> None:
    with watching(ROOT) as outer:
        torch.compile(Leaf(), backend="eager")(torch.ones(3, 4))
        with watching(ROOT) as inner:
            torch.compile(InNoGrad(), backend="aot_eager")(torch.ones(3, 4))
        torch.compile(Branch(), backend="eager")(torch.ones(3, 4))
    assert breaks(inner.report()) == [(place(InNoGrad, "print"), 1, True)]
    assert [item.where for item in outer.report().breaks] == [
        place(Leaf, "print"),
        place(InNoGrad, "print"),
        place(Branch, "if x.sum()"),
    ]
    assert (inner.report().graphs, outer.report().graphs) == (2, 6)


def test_a_watch_names_the_break_that_fullgraph_stopped_at() -> None:
    with watching(ROOT) as seen, pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(Outer(), backend="eager", fullgraph=True)(torch.ones(3, 4))
    assert breaks(seen.report()) == [(place(Leaf, "print"), 1, True)]
    assert seen.report().graphs == 0


def test_reports_add_up_by_place() -> None:
    here, there = Break("print", "a.py:1", 2, True), Break("print", "b.py:1", 1, False)
    guard = Recompile("a.py:1", "n == 1", 1)
    total = GraphReport(1, (here,), (guard,), 0, 1, 1) + GraphReport(2, (there, here), (guard,), 1, 0, 3)
    assert total == GraphReport(3, (Break("print", "a.py:1", 4, True), there), (Recompile("a.py:1", "n == 1", 2),), 1, 1, 4)


def test_a_whole_module_is_whole() -> None:
    assert whole(Whole(), {"x": torch.ones(3, 4)}, root=ROOT) is None


@pytest.mark.parametrize(
    ("module", "at"), [(Outer, (Leaf, "print")), (InLoop, (InLoop, "print")), (Branch, (Branch, "if x.sum()"))]
)
def test_a_module_that_is_not_whole_says_why_and_where(module: type[nn.Module], at: tuple[type, str]) -> None:
    why = whole(module(), {"x": torch.ones(3, 4)}, root=ROOT) or ""
    assert why.endswith(f" — {place(*at)}")
    assert "\n" not in why


def test_a_dimension_that_is_marked_and_specialised_is_not_whole() -> None:
    why = whole(Specialises(), {"x": torch.ones(4, 3)}, root=ROOT, marks={"x": {0: Axis("rows", 2, 64)}}) or ""
    assert why.startswith("Constraints violated (L['x'].size()[0])!")
    assert "specialized it to be a constant (4)" in why


def test_where_compiling_is_switched_off_nothing_is_whole() -> None:
    with torch.compiler.set_stance("force_eager"):
        assert (whole(Whole(), {"x": torch.ones(3, 4)}, root=ROOT) or "").startswith("nothing was compiled")
        assert count(Whole()).graphs == 0
