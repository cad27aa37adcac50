"""Control cases: a machine that moved excuses what moved with it, and nothing more."""

from __future__ import annotations

import pytest

from perf.judge.controls import excuse, moved
from perf.outcome import Verdict, Word

ACCEPTED = [
    {"matmul": 0.999, "copy": 1.0, "launches": 1.0},
    {"matmul": 1.0, "copy": 0.999, "launches": 1.001},
    {"matmul": 1.001, "copy": 1.001, "launches": 0.999},
]


def verdict(metric: str, ratio: float, word: Word = Word.REGRESSED) -> Verdict:
    return Verdict("k", metric, word, now=ratio, baseline=1.0, budget=0.05, note="first")


def words(metric: str, ratio: float, controls: dict[str, float], word: Word = Word.REGRESSED) -> list[Word]:
    return [found.word for found in excuse([verdict(metric, ratio, word)], moved(controls, ACCEPTED))]


def test_steady_controls_have_not_moved() -> None:
    assert moved({"matmul": 1.0, "copy": 1.001, "launches": 1.0}, ACCEPTED) == []


def test_a_control_that_moved_is_named_with_its_size() -> None:
    (found,) = moved({"matmul": 1.08, "copy": 1.0, "launches": 1.0}, ACCEPTED)
    assert (found.metric, found.word) == ("matmul", Word.REGRESSED)
    (excused,) = excuse([verdict("latency_s", 1.09)], [found])
    assert excused.note == "first; the machine moved: matmul +8.0%"


@pytest.mark.parametrize("controls", [{}, {"matmul": 1.08}])
def test_without_controls_on_both_sides_nothing_is_said(controls: dict[str, float]) -> None:
    assert moved(controls, [{}] if controls else ACCEPTED) == []


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize(
    ("name", "within", "beyond"), [("matmul", 1.34, 1.37), ("copy", 1.34, 1.37), ("launches", 1.9, 2.1)]
)
def test_beside_one_or_two_runs_a_control_speaks_only_beyond_a_plain_margin(
    runs: int, name: str, within: float, beyond: float
) -> None:
    """Their own noise is not known: 3 % is no movement, nor is a third."""
    few, steady = ACCEPTED[:runs], {"matmul": 1.0, "copy": 1.0, "launches": 1.0}
    assert moved(steady | {name: 1.03}, few) == []
    assert moved(steady | {name: within}, few) == []
    assert [found.metric for found in moved(steady | {name: beyond}, few)] == [name]
    assert [found.metric for found in moved(steady | {name: within}, ACCEPTED)] == [name]


@pytest.mark.parametrize(
    ("metric", "slow", "word"),
    [
        ("latency_s", "launches", Word.INCONCLUSIVE),
        ("device_s", "launches", Word.REGRESSED),  # kernel time does not wait for the host
        ("device_s", "copy", Word.INCONCLUSIVE),
        ("peak_bytes", "copy", Word.REGRESSED),  # bytes do not depend on speed
    ],
)
def test_a_metric_is_excused_by_the_controls_it_depends_on(metric: str, slow: str, word: Word) -> None:
    controls = {"matmul": 1.0, "copy": 1.0, "launches": 1.0} | {slow: 1.2}
    assert words(metric, 1.15, controls) == [word]


def test_only_the_same_direction_excuses() -> None:
    slower = {"matmul": 1.1, "copy": 1.0, "launches": 1.0}
    assert words("latency_s", 0.85, slower, Word.IMPROVED) == [Word.IMPROVED]
    assert words("latency_s", 1.12, slower) == [Word.INCONCLUSIVE]


def test_a_control_speaks_for_twice_its_own_change_beyond_the_budget() -> None:
    """Matmul +10 %: up to 1.05 · 1.1² = 1.2705 is excused."""
    slower = {"matmul": 1.1, "copy": 1.0, "launches": 1.0}
    assert words("latency_s", 1.269, slower) == [Word.INCONCLUSIVE]
    (found,) = excuse([verdict("latency_s", 1.272)], moved(slower, ACCEPTED))
    assert (found.word, found.note) == (
        Word.REGRESSED,
        "first; more than the machine, which moved too: matmul +10.0%",
    )


def test_what_did_not_change_stays_as_it_is() -> None:
    same = Verdict("k", "latency_s", Word.SAME, 1.0, 1.0, 0.05)
    assert excuse([same], moved({"matmul": 1.5, "copy": 1.5, "launches": 1.5}, ACCEPTED)) == [same]
