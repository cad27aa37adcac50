"""What a comparison has found so far: by case and clock the restarts and their word; by case why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from perf.ab.interleave import Restart
from perf.ab.paired import POWER, UNKNOWN, Interval, hopeless, interval, judge, level, looks
from perf.outcome import Verdict, Word


@dataclass
class Test:
    """One clock of one case: its restarts, and the word of the last look at them. Once it is `given_up`, no restart is
    made for its sake."""

    key: str
    clock: str
    restarts: list[Restart] = field(default_factory=list)
    found: Interval = UNKNOWN
    word: Word = Word.INCONCLUSIVE
    given_up: bool = False

    @property
    def open(self) -> bool:
        return self.word is Word.INCONCLUSIVE and not self.given_up

    @property
    def pairs(self) -> int:
        return sum(restart.pairs for restart in self.restarts)

    def look(self, resolution: float, level: float, restarts: int) -> None:
        """A word once given stays: it was right at the level of its own look."""
        if self.word is Word.INCONCLUSIVE:
            self.found = interval([restart.ratio for restart in self.restarts], level)
            self.word = judge(self.found, resolution)
            self.given_up = hopeless(self.found, resolution, level, restarts)

    def verdict(self, resolution: float) -> Verdict:
        base = median(restart.base_s for restart in self.restarts) if self.restarts else None
        head = median(restart.head_s for restart in self.restarts) if self.restarts else None
        return Verdict(self.key, self.clock, self.word, head, base, resolution, self._note(resolution))

    def _note(self, resolution: float) -> str:
        if self.word is not Word.INCONCLUSIVE:
            return ""
        if len(self.restarts) < 2:
            return "time was up before a second restart: raise --budget-minutes, or take fewer cases"
        why = "given up as too noisy" if self.given_up else "undecided"
        seen = f"+{self.found.smallest_visible:.1%} would have been seen {POWER:.0%} of the time"
        return f"{why} at {resolution:.1%} after {len(self.restarts)} restarts: {seen}"


@dataclass
class Findings:
    """`tests` by case; `apart` are cases without a ratio, with the word for each and why; `skips` run on neither side.
    `count` is the number of tests at the first look, which the level is shared among from then on."""

    tests: dict[str, list[Test]]
    apart: dict[str, tuple[Word, str]] = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)
    count: int = 0

    @classmethod
    def of(cls, clocks: Mapping[str, Sequence[str]]) -> Findings:
        return cls({key: [Test(key, clock) for clock in own] for key, own in clocks.items() if own})

    @property
    def open(self) -> list[str]:
        """Keys of the cases that another restart could decide."""
        return [key for key, tests in self.tests.items() if any(test.open for test in tests)]

    @property
    def all(self) -> list[Test]:
        return [test for tests in self.tests.values() for test in tests]

    def clocks(self, key: str) -> list[str]:
        return [test.clock for test in self.tests[key]]

    def add(self, key: str, found: Mapping[str, Restart]) -> None:
        for test in self.tests[key]:
            test.restarts.append(found[test.clock])

    def look(self, resolution: float, restarts: int) -> None:
        self.count = self.count or len(self.all)
        for test in self.all:
            test.look(resolution, level(self.count, looks(restarts)), restarts)

    def set_apart(self, key: str, word: Word, why: str) -> None:
        del self.tests[key]
        self.apart[key] = (word, why)

    def skip(self, key: str, why: str) -> None:
        del self.tests[key]
        self.skips[key] = why

    def verdicts(self, resolution: float) -> list[Verdict]:
        """In the order of the cases; those without a ratio come last."""
        apart = [Verdict(key, "", word, note=why) for key, (word, why) in sorted(self.apart.items())]
        return [test.verdict(resolution) for test in self.all] + apart
