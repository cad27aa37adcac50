"""One fresh process of a recording: `python -m perf.study.child SPEC.json RUN.json` builds each case, samples it, and
then samples it with each amount of extra work."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING

from perf.contract import Case
from perf.study.inject import CPU_BUFFER, Amount, Work, calibrate, reached
from perf.study.records import Point, Recorded, rounded, to_line

if TYPE_CHECKING:
    from perf.study.clocks import Clocks
    from perf.workbench import Workbench


@dataclass(frozen=True)
class Spec:
    """What a process measures: `keys` in their order, on one device, each for `seconds` a point, without extra work and
    then at each of `levels` in an order drawn from `seed`. Inputs are those that the gate times.
    """

    root: str
    core_folders: tuple[str, ...]
    variant_folders: tuple[str, ...]
    cache: str
    keys: tuple[str, ...]
    seed: int
    seconds: float
    levels: tuple[float, ...]


def main(asked: str, told: str) -> None:
    Path(told).write_text(to_line(measured(Spec(**json.loads(Path(asked).read_text())))))


def measured(spec: Spec) -> Recorded:
    """All cases; one that fails is left out with its reason, and the others go on."""
    from perf.catalogue import discover
    from perf.errors import first_line
    from perf.measure import machine
    from perf.measure.controls import ControlWatch
    from perf.study.clocks import CLOCKS
    from perf.workbench import Workbench

    at, root = datetime.now(UTC).isoformat(timespec="seconds"), Path(spec.root)
    catalogue = discover(map(Path, spec.core_folders), map(Path, spec.variant_folders), root)
    bench = Workbench(catalogue, spec.seed, Path(spec.cache), root)
    cases, dice = list(map(Case.parse, spec.keys)), Random(spec.seed)
    points: list[Point] = []
    left_out: dict[str, str] = {}
    controls = ControlWatch(wanted=True)
    controls.start(cases[0].device)
    for case in cases:
        levels = dice.sample(spec.levels, len(spec.levels))
        try:
            points += list(
                points_of(case.key, _warm(bench, case, spec.seconds), CLOCKS[case.device](), spec.seconds, levels)
            )
        except Exception as error:
            left_out[case.key] = first_line(error)
    bench.close()
    hardware = machine.hardware(cases[0].device)
    return Recorded(
        at=at,
        seed=spec.seed,
        machine_class=machine.machine_class(hardware),
        hardware=hardware,
        software=machine.software(),
        points=tuple(points),
        left_out=left_out,
        controls={name: rounded(seconds, 7) for name, seconds in controls.finish().items()},
    )


def _warm(bench: Workbench, case: Case, seconds: float) -> Callable[[Work], Callable[[], None]]:
    """The case, built and warmed up, as a function that makes a call with extra work before the wait for the
    device. Warming up ends after `seconds`, whatever it sees."""
    from perf.measure.device import synchronise
    from perf.measure.latency import WarmUpPlan, warm_up

    runner, prepared = bench.built(case).runner, bench.timed(case)

    def call(extra: Work) -> None:
        runner.run(prepared)
        extra()
        synchronise(case.device)

    runner.outputs(runner.run(prepared))
    warm_up(partial(call, nothing), perf_counter, WarmUpPlan(max_s=seconds))
    return lambda extra: partial(call, extra)


def nothing() -> None:
    """No extra work; a call like any other, so that all levels have the same calls around them."""


def points_of(
    key: str,
    with_extra: Callable[[Work], Callable[[], None]],
    clocks: Clocks,
    seconds: float,
    levels: Sequence[float],
) -> Iterator[Point]:
    """The case as it is, then at each level, in the order given. Levels are shares of the shortest call, which nobody
    disturbed: of a median that a busy machine doubled they would be twice the work. A level that no amount of work
    comes near to is left out: on a CPU one pass over nothing takes a microsecond or two, on a GPU one kernel does.
    """
    from perf.measure.latency import quiet_collector

    plain = with_extra(nothing)
    with quiet_collector():
        own = clocks.measured(plain, seconds)
        yield Point(key, 0.0, {}, own)
        amounts = amounts_of(levels, own[clocks.base].min, partial(clocks.cost, plain))
        for level in (level for level in levels if level in amounts):
            extra = with_extra(clocks.work(amounts[level].elements))
            extra()
            yield Point(key, level, clocks.shares(amounts[level], own), clocks.measured(extra, seconds))


def amounts_of(levels: Sequence[float], own_s: float, timed: Callable[[int], float]) -> dict[float, Amount]:
    """The amount of work for each level that can be reached; in rising order, each guessed from the one before."""
    found: dict[float, Amount] = {}
    guess = CPU_BUFFER
    for level in sorted(levels):
        amount = calibrate(level * own_s, timed, guess)
        guess = max(guess, amount.elements)
        if reached(level * own_s, amount):
            found[level] = amount
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
