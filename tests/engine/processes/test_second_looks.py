"""What is made of what fresh processes say of a suspect; the processes are scripted."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from pytest_benchmark.utils import NameWrapper

from perf import judgement
from perf.confirm import Command, confirm, values
from perf.errors import CoregateError
from perf.interrupts import Interrupts
from perf.measure.ledger import Ledger
from perf.outcome import Row
from perf.plugin import OPTIONS, _again


class Scripted(Command):
    """Answers from a list, one a process; keeps what it was told to say."""

    def __init__(self, answers: list[Any]) -> None:
        self.said: list[str]
        object.__setattr__(self, "said", [])
        object.__setattr__(self, "answers", iter(answers))
        super().__init__((), Path(), self.said.append)

    def measure(self, keys: object, *, compiled_anew: bool = False) -> dict[str, Row]:
        answer = next(self.answers)  # type: ignore[attr-defined]
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]


def test_values_come_by_key_and_metric_in_the_order_of_the_processes() -> None:
    answers = [{"a": Row("a", {"latency_s": 1.0, "device_s": 2.0})}, {"a": Row("a", {"latency_s": 3.0})}]
    command = Scripted(answers)
    assert values(list(confirm(command, ["a"], 2))) == {("a", "latency_s"): [1.0, 3.0], ("a", "device_s"): [2.0]}
    assert command.said == [f"measuring again in a fresh process, {i} of 2: a" for i in (1, 2)]


def second_looks(answers: list[Any], looks: int) -> tuple[list[dict[str, float]], list[str], list[str], bool]:
    """Of suspects that are compiled anew or not: what came of them, which problems, what was said, and whether that was
    interrupted."""
    command, interrupts = Scripted(answers), Interrupts()
    run: Any = SimpleNamespace(workbench=Mock(ledger=Ledger()))
    found, problems = judgement._again(run, command, {"c": False, "b": True, "a": False}, looks, interrupts)
    latencies = [{key: row.metrics["latency_s"] for key, row in rows.items()} for rows in found]
    return latencies, problems, command.said, interrupts.seen


def rows(notes: str = "", **latencies: float) -> dict[str, Row]:
    return {key: Row(key, {"latency_s": value}, notes={"compile_cache": notes}) for key, value in latencies.items()}


def test_what_autotuning_chose_otherwise_is_compiled_anew_in_processes_of_its_own() -> None:
    answers = [rows(c=1.0, a=2.0), rows(c=3.0, a=4.0), rows("1 compiled", b=5.0), rows("1 from the cache", b=6.0)]
    found, problems, said, _ = second_looks(answers, 2)
    assert found == [{"c": 1.0, "a": 2.0}, {"c": 3.0, "a": 4.0}, {"b": 5.0}, {"b": 6.0}]
    assert not problems
    assert said == [
        "measuring again in a fresh process, 1 of 2: c, a",
        "measuring again in a fresh process, 2 of 2: c, a",
        "measuring again in a fresh process, compiled anew, 1 of 2: b",
        "measuring again in a fresh process, compiled anew, 2 of 2: b",
        "not compiled anew, something sets TORCHINDUCTOR_CACHE_DIR to a cache that is kept: b",
    ]


def test_a_process_that_fails_takes_nothing_from_the_others() -> None:
    broken = CoregateError("could not be measured again")
    assert second_looks([rows(c=1.0), broken, rows(b=2.0), rows(b=3.0)], 2)[:2] == (
        [{"c": 1.0}, {"b": 2.0}, {"b": 3.0}],
        ["could not be measured again"],
    )


def test_who_interrupts_a_second_look_keeps_those_before() -> None:
    found, problems, _, seen = second_looks([rows(c=1.0), rows(c=2.0), KeyboardInterrupt()], 2)
    assert (found, seen) == ([{"c": 1.0}, {"c": 2.0}], True)
    assert problems == ["interrupted: suspects were measured again 2 times, 4 were asked for"]


def test_without_a_suspect_no_process_is_started() -> None:
    assert list(confirm(Scripted([]), [], 2)) == []


def test_what_decides_a_number_is_asked_of_the_fresh_process_as_well() -> None:
    given = SimpleNamespace(
        pyargs=True,
        override_ini=["perf_cores=here"],
        weights=["toy=w.pt"],
        benchmark_min_rounds=7,
        benchmark_max_time=0.5,
        benchmark_warmup=True,
        benchmark_timer=NameWrapper(time.process_time),
        benchmark_precision=None,
    )
    config: Any = SimpleNamespace(
        option=given,
        args=["perf.suites"],
        rootpath=Path("/r"),
        inipath=Path("/r/pytest.ini"),
        stash={OPTIONS: SimpleNamespace(seed=5)},
        pluginmanager=SimpleNamespace(get_plugin=lambda name: None),
        invocation_params=SimpleNamespace(dir=Path("/r")),
    )
    assert " ".join(_again(config).arguments) == (
        "--pyargs perf.suites --rootdir=/r -c=/r/pytest.ini -o perf_cores=here --weights toy=w.pt "
        "--benchmark-min-rounds=7 --benchmark-max-time=0.5 --benchmark-warmup=True "
        "--benchmark-timer=time.process_time --perf-seed=5"
    )
