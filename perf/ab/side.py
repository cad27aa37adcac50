"""One side's process: `python -m perf.ab.side`, in that side's interpreter and folder, with that side's own `perf`.

JSON lines on stdin and stdout, one answer a request; the first line is said unasked:

    {"coregate_ab": 1, "software": {…}}   the protocol's number, and versions
    {"ask": "cases"}                      → {"cases": {key: [clock, …]}, "skips": {key: why}}
    {"ask": "build", "key": …, "checked": whether a process of this side found it right before}
                                          → {"word": "ready" | "wrong" | "unsupported", "why": …}
    {"ask": "run", "key": …, "calls": n}  → {"durations": {clock: [n seconds]}}
    {"ask": "quit"}                       → nothing; the end of stdin means the same

What goes wrong is {"error": one line}. The two sides are of different revisions: a side ignores fields it does not know
and says so of requests; fields are added and never change their meaning, or the number grows.

The cases are those that pytest would time, with the project's own configuration, so pytest collects them here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perf.ab.bench import Bench
    from perf.contract import Case
    from perf.session import Session

SUITE = ("--pyargs", "perf.suites.test_latency", "-p", "perf.plugin", "--import-mode=importlib")
PLAIN = ("-o", "addopts=", "-p", "no:cacheprovider", "-q", "-s")
"""Neither the project's own options, which may spread the tests over processes, nor anything written or captured."""


MakeBench = Callable[["Session", Mapping[str, "Case"], Mapping[str, str], Path | None], "Bench"]
"""(the session, cases by key, reasons of skips by key, the folder that the checkout stands in for) → the bench."""


class Lines:
    """The two ends of the parent's pipes, out of reach of what libraries print."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers

    @classmethod
    def take(cls) -> Lines:
        """Keep copies of fd 0 and 1 to ourselves; whoever prints from now on writes to stderr, and reads nothing."""
        lines = cls(os.fdopen(os.dup(0), encoding="utf8"), os.fdopen(os.dup(1), "w", encoding="utf8"))
        os.dup2(2, 1)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        return lines

    def say(self, answer: Mapping[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def requests(self) -> Iterator[dict[str, Any]]:
        """Until the parent quits or is gone."""
        for line in self._requests:
            request = json.loads(line)
            if request.get("ask") == "quit":
                return
            yield request


class Serving:
    """A pytest plugin that puts this process at the parent's service where the tests would run."""

    def __init__(self, lines: Lines, cache: Path, replaced: Path | None, bench: MakeBench) -> None:
        self._lines = lines
        self._bench = bench
        self._cache = cache
        self._replaced = replaced

    def pytest_configure(self, config: pytest.Config) -> None:
        """After `perf.plugin`'s, which is tried first: a cache of this side's own."""
        from perf.plugin import OPTIONS

        if OPTIONS in config.stash:
            config.stash[OPTIONS] = replace(config.stash[OPTIONS], cache=self._cache)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        try:
            return (yield)
        except Exception as error:
            self._lines.say({"error": " ".join(str(error).split()) or type(error).__name__})
            raise

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from perf.plugin import SESSION

        run = session.config.stash.get(SESSION, None)
        if run is None:
            self._lines.say({"error": "no cores: set perf_cores = <folder of core files> in the pytest configuration"})
        elif session.testsfailed:
            self._lines.say({"error": "perf.suites.test_latency does not import: run pytest there to see why"})
        else:
            self._serve(run, session.items)
        return True

    def _serve(self, run: Session, items: Sequence[pytest.Item]) -> None:
        from perf.ab.bench import hello

        asked = [(item.callspec.params["case"], item.get_closest_marker("skip")) for item in _parametrised(items)]
        cases = {case.key: case for case, skip in asked if skip is None}
        skips = {case.key: str(skip.kwargs.get("reason", "")) for case, skip in asked if skip is not None}
        bench = self._bench(run, cases, skips, self._replaced)
        self._lines.say(hello())
        for request in self._lines.requests():
            self._lines.say(bench.answer(request))
        run.workbench.close()


def _parametrised(items: Sequence[pytest.Item]) -> list[Any]:
    """Those with a `case`; where there is no case at all, pytest makes one item without."""
    return [item for item in items if "case" in getattr(getattr(item, "callspec", None), "params", {})]


def plain_bench(run: Session, cases: Mapping[str, Case], skips: Mapping[str, str], replaced: Path | None) -> Bench:
    """Made once pytest has collected: it imports torch."""
    from perf.ab.bench import Bench

    return Bench(run, cases, skips, replaced)


def main(arguments: Sequence[str], bench: MakeBench = plain_bench) -> int:
    """`--cache FOLDER [--replaced FOLDER]`, then whatever pytest takes (`-k`, `--core`, `--perf-seed`, …). What `bench`
    makes answers the requests."""
    lines = Lines.take()
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--replaced", type=Path)
    own, others = parser.parse_known_args(arguments)
    return pytest.main([*SUITE, *PLAIN, *others], plugins=[Serving(lines, own.cache, own.replaced, bench)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
