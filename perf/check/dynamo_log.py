"""Hears every graph break of TorchDynamo as it happens, and says where in the user's code it was.

Source: the records of the artifact logger `graph_breaks` (what `TORCH_LOGS=graph_breaks` prints). Compared on torch
2.11 and 2.14 with modules whose breaks are known by construction, it alone misses none:

- `counters["graph_break"]` lacks data-dependent branches and every function that is left to eager as a whole (a break
  in a loop, in `try`, in a `with` that cannot be resumed, before an exception), and names no line;
- `graph_break_reasons` and `GraphModule.compile_subgraph_reason` lack the latter too, and graphs without an operator;
- `torch._dynamo.explain` traces apart from the run, with counts of its own.

The record's text drops frames (a `forward` that calls a `forward` is shown as one), so the stack is taken from the
exception Dynamo is handling, and from the live Python stack above it.
"""

from __future__ import annotations

import logging
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch._dynamo.symbolic_convert
from torch._guards import CompileContext, TracingContext

UNKNOWN = "?"
"""The place of a break that nothing names."""

Line = tuple[str, int]
"""File name and line number, 1-based."""

_HARNESS = Path(__file__).resolve().parents[1]
_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
_PACKAGES = ("site-packages", "dist-packages")
_NOT_THE_MODEL = tuple(
    Path(file).resolve() for file in (Path(torch._dynamo.__file__).parent, logging.__file__, __file__)
)

_SPLIT_AT = re.compile(r"in user code at (?P<file>.+):(?P<line>\d+)$", re.MULTILINE)
_EXPLAINED = re.compile(r"^(?P<kind>\S.*)\n(?:  Higher Order Operator: .*\n)?  Explanation: (?P<why>.*)$", re.MULTILINE)
_AFTER_REASON = re.compile(r"\n\n(?:Stack variable source attribution|User code traceback):")
ADDRESS = re.compile(r"0x[0-9a-f]{4,}")


@dataclass(frozen=True)
class Found:
    """One break: a one-line reason, `path:line` of the user's frame, and whether the breaking line itself is theirs."""

    reason: str
    where: str
    own: bool


class Places:
    """Tells the user's files, those under `root`, from libraries', and names both without this machine's folders."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def own(self, file: str) -> bool:
        path = Path(file).resolve()
        if not path.is_relative_to(self._root) or path.is_relative_to(_HARNESS) or path.is_relative_to(_STDLIB):
            return False
        return not any(part in _PACKAGES for part in path.relative_to(self._root).parts) and path.exists()

    def name(self, line: Line) -> str:
        """`models/net.py:12` under root, `diffusers/models/x.py:12` in a library, else the file as Python calls it."""
        file, number = line
        path = Path(file).resolve()
        if not path.exists():
            return f"{file}:{number}"
        package = max((at for at, part in enumerate(path.parts) if part in _PACKAGES), default=None)
        if package is not None:
            return f"{'/'.join(path.parts[package + 1 :])}:{number}"
        base = next((folder for folder in (self._root, _STDLIB) if path.is_relative_to(folder)), None)
        return f"{path.relative_to(base).as_posix() if base else path.as_posix()}:{number}"

    def blame(self, reason: str, stack: Sequence[Line]) -> Found:
        """The innermost user frame of `stack` (outermost first), with the library line where that is what broke."""
        if not stack:
            return Found(reason, UNKNOWN, own=False)
        innermost = self.name(stack[-1])
        users = [line for line in stack if self.own(line[0])]
        if not users:
            return Found(reason, innermost, own=False)
        if users[-1] == stack[-1]:
            return Found(reason, innermost, own=True)
        return Found(f"{reason} (in {innermost})", self.name(users[-1]), own=False)


def one_line(text: str) -> str:
    """The kind of break and its explanation, from a message of Dynamo's, without hints, links and addresses.

    Where Dynamo did not just split the graph but gave a function up, that is said in brackets.
    """
    found = _EXPLAINED.findall(text)
    said = f"{found[0][0]}: {found[0][1]}" if found else _headline(text)
    kept = _left_to_eager(text, [kind for kind, _ in found[1:]])
    return ADDRESS.sub("0x…", f"{said} [{kept}]" if kept else said)


def _headline(text: str) -> str:
    """The first line, and the first of the points that it announces."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    return " ".join([lines[0], *[line.removeprefix("- ") for line in lines[1:] if line.startswith("- ")][:1]])


def _left_to_eager(text: str, later: Sequence[str]) -> str:
    if "skipping the rest of the function" in text:
        return "the rest of the function runs eagerly"
    if "falling back to eager" in text:
        return ": ".join(["the whole function runs eagerly", *later])
    return ""


class BreakLog(logging.Handler):
    """Collects breaks in `found`, and in `compilations` the id of each compilation that had one. Nests.

    Frames that are running when it is made are the caller's, not the model's, and are never blamed.
    """

    logger = torch._dynamo.symbolic_convert.graph_break_log

    def __init__(self, places: Places) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[Found] = []
        self.compilations: set[str] = set()
        self._places = places
        self._outside = _frames()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Level, propagation and handlers are put back; what the user's `TORCH_LOGS` asked for is still printed."""
        log = self.logger
        level, propagate, handlers = log.level, log.propagate, list(log.handlers)
        try:
            if not log.isEnabledFor(logging.DEBUG):
                log.handlers, log.propagate = [], False
                log.setLevel(logging.DEBUG)
            log.addHandler(self)
            yield
        finally:
            log.handlers, log.propagate = handlers, propagate
            log.setLevel(level)
            self._outside = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        stack = [*self._live(), *_traced_frames(text, sys.exc_info()[1])]
        self.found.append(self._places.blame(one_line(_reason(text)), stack))
        self.compilations.add(str(CompileContext.current_compile_id()))

    def _live(self) -> list[Line]:
        """Frames of the model that are running for real, outermost first."""
        inside: list[Line] = []
        for frame in _frames():
            if any(frame is known for known in self._outside):
                break
            file = Path(frame.f_code.co_filename).resolve()
            if not any(file.is_relative_to(other) for other in _NOT_THE_MODEL):
                inside.append((frame.f_code.co_filename, frame.f_lineno))
        return inside[::-1]


def _traced_frames(text: str, error: BaseException | None) -> list[Line]:
    """Frames that Dynamo was tracing when it broke off, outermost first: those of the `error` it is handling, else of
    the trace under way, if they end at the line that the record's `text` names; else that line alone.
    """
    named = _SPLIT_AT.search(text)
    at = (named["file"], int(named["line"])) if named else None
    for summary in (getattr(error, "real_stack", None), TracingContext.extract_stack()):
        frames = [(frame.filename, frame.lineno or 0) for frame in summary or ()]
        if frames and at in (None, frames[-1]):
            return frames
    return [at] if at else []


def _reason(text: str) -> str:
    return _AFTER_REASON.split(text.partition("Graph Break Reason: ")[2] or text)[0]


def _frames() -> list[FrameType]:
    """The running Python frames, innermost first, without this one."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found
