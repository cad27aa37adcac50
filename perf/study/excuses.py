"""What the gate would have excused: a recorded run's control cases beside those of its baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perf.judge.controls import excuse, moved
from perf.outcome import Verdict
from perf.study.records import Seen
from perf.study.rules import Baseline, Words


@dataclass(frozen=True)
class Excuses:
    """`controls` are those of every recorded run (seconds by name; empty where it has none), by position. `metric` is
    what is judged.
    """

    controls: Sequence[Mapping[str, float]]
    metric: str
    _moved: dict[tuple[int, tuple[int, ...]], list[Verdict]] = field(default_factory=dict)

    def machine(self, judged: int, baseline: tuple[int, ...]) -> list[Verdict]:
        """The controls of run `judged` that moved, beside the runs of `baseline`."""
        if (judged, baseline) not in self._moved:
            self._moved[judged, baseline] = moved(self.controls[judged], [self.controls[run] for run in baseline])
        return self._moved[judged, baseline]

    def applied(self, words: Words, machine: Sequence[Verdict], new: Seen, baseline: Baseline, budget: float) -> Words:
        """`words` as `perf.judge.controls` leaves them: a change that the machine went along with is none."""
        if not machine:
            return words
        found = [
            Verdict(case, self.metric, word, new[case].median, math.exp(baseline.noise[case].centre), budget)
            for case, word in words.items()
        ]
        return {verdict.key: verdict.word for verdict in excuse(found, machine)}
