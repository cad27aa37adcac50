"""A comparison as lines: one a case and clock, then what needs a word."""

from __future__ import annotations

import math
from collections.abc import Mapping

from perf.ab.findings import Findings, Test
from perf.ab.paired import FAMILY_LEVEL, looks
from perf.contract import Case, Skip
from perf.outcome import Verdict, Word
from perf.report.cases import align, plural, seconds, skip_lines

HEADINGS = ("case", "clock", "base", "head", "change", "interval", "pairs", "verdict")


def lines(findings: Findings, resolution: float, restarts: int) -> list[str]:
    verdicts = findings.verdicts(resolution)
    rows = [_row(test, test.verdict(resolution)) for test in findings.all]
    rows += [[key, "-", "-", "-", "-", "-", "-", str(word)] for key, (word, _) in sorted(findings.apart.items())]
    counts = ", ".join(f"{n} {word}" for word in Word if (n := sum(found.word is word for found in verdicts)))
    said = [f"{found.word}: {found.key}: {_because(found)}" for found in verdicts if found.note]
    return [
        *align([HEADINGS, *rows]),
        "",
        *_what_intervals_are(findings, restarts),
        counts,
        *said,
        *skip_lines(Skip(Case.parse(key), reason) for key, reason in sorted(findings.skips.items())),
    ]


def software_lines(base: Mapping[str, str], head: Mapping[str, str]) -> list[str]:
    """What the sides do not share, as suspects: `torch 2.13.0 → 2.14.1`."""
    names = sorted(name for name in {*base, *head} if base.get(name) != head.get(name))
    return [f"{name} {base.get(name, 'absent')} → {head.get(name, 'absent')}" for name in names]


def _row(test: Test, verdict: Verdict) -> list[str]:
    levels = [seconds(value) if value else "-" for value in (verdict.baseline, verdict.now)]
    pairs = f"{test.pairs} in {plural(len(test.restarts), 'restart')}"
    return [test.key, test.clock, *levels, *_change(test), pairs, str(verdict.word)]


def _change(test: Test) -> tuple[str, str]:
    """`+1.2%` and `-0.3 … +2.7%`, as growth of the head over the base."""
    found = test.found
    if not found.df:
        return "-", "-"
    low, high = (math.expm1(min(700.0, found.centre + sign * found.half_width)) for sign in (-1, 1))
    return f"{math.expm1(found.centre):+.1%}", f"{100 * low:+.1f} … {high:+.1%}"


def _because(found: Verdict) -> str:
    return f"{found.metric}: {found.note}" if found.metric else found.note


def _what_intervals_are(findings: Findings, restarts: int) -> list[str]:
    if not findings.count:
        return []
    tests, times = plural(findings.count, "test"), plural(len(looks(restarts)), "look")
    return [f"All intervals hold together in {1 - FAMILY_LEVEL:.0%} of comparisons ({tests} × {times}, Bonferroni)."]
