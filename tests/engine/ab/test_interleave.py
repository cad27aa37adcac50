"""One restart: the order of blocks, what it cancels, and when it stops, on a machine with a scripted clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from statistics import stdev

import pytest

from perf.ab.interleave import Durations, Pace, measure, standard_error

EXACT = Pace(precision=0.003, most_s=1000.0)


@dataclass
class Machine:
    """Both sides' clock: a call lasts what its side says at that time. `log` is who ran how many calls."""

    now: float = 0.0
    log: list[tuple[str, int]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now


@dataclass
class Scripted:
    name: str
    machine: Machine
    lasts: Callable[[float], float]

    def run(self, key: str, calls: int) -> Durations:
        self.machine.log.append((self.name, calls))
        durations = []
        for _ in range(calls):
            durations.append(self.lasts(self.machine.now))
            self.machine.now += durations[-1]
        return {"latency_s": durations, "cpu_s": [duration / 4 for duration in durations]}


def pair(base: Callable[[float], float], head: Callable[[float], float]) -> tuple[Machine, Scripted, Scripted]:
    machine = Machine()
    return machine, Scripted("A", machine, base), Scripted("B", machine, head)


def test_each_quad_is_abba_or_baab_by_chance() -> None:
    machine, base, head = pair(lambda _: 1e-3, lambda _: 1e-3)
    measure(base, head, "k", ["latency_s"], Pace(0.0, 2.0), machine.clock, Random(3))
    order = "".join(name for name, _ in machine.log[2:])
    quads = [order[i : i + 4] for i in range(0, len(order), 4)]
    assert set(quads) == {"ABBA", "BAAB"}
    assert len(quads) * 4 == len(order)


def test_a_steady_ratio_is_found_to_the_bit_and_at_once() -> None:
    machine, base, head = pair(lambda _: 1e-3, lambda _: 1.25e-3)
    found = measure(base, head, "k", ["latency_s", "cpu_s"], EXACT, machine.clock, Random(3))
    assert found["latency_s"].ratio == pytest.approx(math.log(1.25), abs=1e-12)
    assert (found["latency_s"].base_s, found["latency_s"].head_s) == pytest.approx((1e-3, 1.25e-3))
    assert (found["cpu_s"].base_s, found["cpu_s"].head_s) == pytest.approx((0.25e-3, 0.3125e-3))
    assert found["latency_s"].pairs == 2 * EXACT.least


def test_a_machine_that_slows_down_steadily_is_in_no_ratio() -> None:
    """1 % a call of one call a block: a side that always came second would look 1 % slower."""
    calls = iter(range(10**6))
    machine, base, head = pair(lambda _: 1.01 ** next(calls), lambda _: 1.01 ** next(calls))
    found = measure(base, head, "k", ["latency_s"], EXACT, machine.clock, Random(3))
    assert found["latency_s"].ratio == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("call_s", "calls"), [(1e-3, 20), (3e-3, 7), (0.5, 1), (1e-6, 1000)], ids=["1ms", "3ms", "long", "1us"]
)
def test_a_block_lasts_about_twenty_milliseconds(call_s: float, calls: int) -> None:
    machine, base, head = pair(lambda _: call_s, lambda _: call_s)
    measure(base, head, "k", ["latency_s"], EXACT, machine.clock, Random(3))
    assert {n for _, n in machine.log[2:]} == {calls}


def test_blocks_are_as_long_on_both_sides_where_one_is_slower() -> None:
    machine, base, head = pair(lambda _: 1e-3, lambda _: 4e-3)
    measure(base, head, "k", ["latency_s"], EXACT, machine.clock, Random(3))
    assert {n for _, n in machine.log[2:]} == {5}


def test_noise_is_sampled_until_it_is_known_or_the_time_is_up() -> None:
    dice = Random(5)
    machine, base, head = pair(lambda _: dice.uniform(0.9, 1.1), lambda _: dice.uniform(0.9, 1.1))
    patient = measure(base, head, "k", ["latency_s"], Pace(0.01, 1e9), machine.clock, Random(3))
    started = machine.now
    hurried = measure(base, head, "k", ["latency_s"], Pace(0.01, 50.0), machine.clock, Random(3))
    assert patient.keys() == hurried.keys()
    assert patient["latency_s"].pairs > hurried["latency_s"].pairs > 2 * EXACT.least
    assert 50.0 <= machine.now - started <= 50.0 + 6.6 + 4.4  # the pilots before, and the quad that was under way


def test_at_least_one_quad_is_run_whatever_the_time() -> None:
    machine, base, head = pair(lambda _: 100.0, lambda _: 110.0)
    found = measure(base, head, "k", ["latency_s"], Pace(0.003, 1.0), machine.clock, Random(3))
    assert found["latency_s"].pairs == 2
    assert found["latency_s"].ratio == pytest.approx(math.log(1.1))


def test_a_burst_of_a_neighbour_in_some_blocks_leaves_the_ratio() -> None:
    blocks = iter(range(10**6))
    machine, base, head = pair(lambda _: 1.0, lambda _: 50.0 if next(blocks) % 5 == 0 else 1.0)
    found = measure(base, head, "k", ["latency_s"], Pace(0.0, 400.0), machine.clock, Random(3))
    assert found["latency_s"].ratio == 0.0


def test_the_standard_error_of_a_median() -> None:
    """By hand for three values, and as what medians of normal draws really do."""
    assert standard_error([-1.0, 0.0, 1.0]) == pytest.approx(1.4826 * math.sqrt(math.pi / 6))
    dice = Random(7)
    draws = [[dice.gauss(0, 1) for _ in range(101)] for _ in range(2000)]
    really = stdev(sorted(draw)[50] for draw in draws)
    assert sum(map(standard_error, draws)) / len(draws) == pytest.approx(really, rel=0.05)
