"""What a verdict names beside a change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perf.judge.suspects import suspects, tuned_otherwise
from perf.outcome import Row


def row(latency_s: float = 1.0, **more: Any) -> Row:
    metrics = {"latency_s": latency_s, **more.get("metrics", {})}
    return Row("k", metrics, more.get("counters", {}), more.get("notes", {}))


def test_nothing_else_moved() -> None:
    assert suspects(row(1.2), row(), "latency_s", {"torch": "2.14.1"}, {"torch": "2.14.1"}) == ""


def test_the_other_metrics_tell_the_devices_part_from_the_hosts() -> None:
    now = row(1.2, metrics={"device_s": 0.5, "host_s": 0.7})
    before = row(1.0, metrics={"device_s": 0.4975, "host_s": 0.5})  # +0.5 %, not worth a word, and +40 %
    assert suspects(now, before, "latency_s", {}, {}) == "host_s +40.0%"


def test_counters_clocks_and_software_stand_in_one_line() -> None:
    now = row(counters={"graphs": 2, "kernels": 40}, notes={"sm_clock": "1305 MHz", "seed": "7"})
    before = row(counters={"graphs": 1, "kernels": 40}, notes={"sm_clock": "1980 MHz", "seed": "6"})
    said = suspects(now, before, "latency_s", {"torch": "2.14.1"}, {"torch": "2.13.0"})
    assert said == "graphs 1 → 2; sm_clock 1980 MHz → 1305 MHz; torch 2.13.0 → 2.14.1"


def test_counters_of_one_machine_class_are_suspects_too() -> None:
    assert suspects(row(counters={"inductor_kernels": 3}), row(), "latency_s", {}, {}) == "inductor_kernels 0 → 3"


def chose(**choices: int) -> Row:
    return row(notes={"kernel_choices": json.dumps({name.replace("_", " "): count for name, count in choices.items()})})


def test_what_autotuning_chose_otherwise_is_named_and_what_it_chose_alike_is_not() -> None:
    said = suspects(chose(extern_mm=3, tile_64=1), chose(extern_mm=1, tile_64=1, tile_32=1), "latency_s", {}, {})
    assert said == "autotuning chose otherwise: tile 32 → extern mm ×2"
    assert suspects(chose(extern_mm=1), chose(extern_mm=1), "latency_s", {}, {}) == ""


def test_where_one_side_does_not_know_its_kernels_nothing_is_said_of_them() -> None:
    assert suspects(chose(extern_mm=1), row(), "latency_s", {}, {}) == ""
    assert suspects(row(), chose(extern_mm=1), "latency_s", {}, {}) == ""


@pytest.mark.parametrize(
    ("now", "accepted", "otherwise"),
    [
        ("one", ["one", "two"], False),
        ("two", ["one", "two"], False),
        ("three", ["one", "two"], True),
        ("three", ["one", None], True),
        ("one", [None], False),
        ("one", [], False),
        (None, ["one"], False),
        (None, [None], False),
    ],
)
def test_autotuning_chose_otherwise_than_in_any_accepted_run(
    now: str | None, accepted: list[str | None], otherwise: bool
) -> None:
    def of(digest: str | None) -> Row:
        return row(notes={} if digest is None else {"kernel_choices_digest": digest})

    assert tuned_otherwise(of(now), map(of, accepted)) is otherwise


def test_of_many_choices_three_are_named() -> None:
    said = suspects(chose(a=1, b=1, c=1, d=1, e=1), chose(), "latency_s", {}, {})
    assert said == "autotuning chose otherwise: none → a, b, c, 2 more"
