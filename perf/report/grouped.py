"""Reasons that are alike but for their percentages, told once: with how many they are of, and from which to which."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perf.outcome import SINCE

NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?=%)")
NAMED = 3
"""Subjects of a group that are named."""

SHOWN = 12
"""Lines of one kind that a terminal is given."""


@dataclass(frozen=True)
class Told:
    """What is said (`reason`) of one `metric` of one case (`key`); `details` are lines of their own below it."""

    key: str
    metric: str
    reason: str
    details: tuple[str, ...] = ()


Teller = Callable[[str, Sequence[Told]], list[str]]
"""How what does not fail a run is told: `grouped`, or `one_by_one`."""


def one_by_one(kind: str, told: Sequence[Told]) -> list[str]:
    return [line for item in told for line in (f"{kind}: {item.key}: {_named(item)}", *item.details)]


def grouped(kind: str, told: Sequence[Told], shown: int = SHOWN) -> list[str]:
    """At most `shown` lines, one a reason, the commonest first, and then how many more there are."""
    by_reason: dict[str, list[Told]] = {}
    for item in told:
        by_reason.setdefault(NUMBER.sub("", _parts(item.reason)[0]), []).append(item)
    groups = sorted(by_reason.values(), key=len, reverse=True)
    left = sum(map(len, groups[shown:]))
    rest = [f"{kind}: {left} more"] if left else []
    whole = len(groups) < len(told) or bool(rest)
    hint = ["all of them one by one: --report FILE.md"] if whole else []
    return [*(line for group in groups[:shown] for line in _lines(kind, group)), *rest, *hint]


def _named(item: Told) -> str:
    return item.reason if item.reason.startswith(item.metric) else f"{item.metric}: {item.reason}"


def _lines(kind: str, group: Sequence[Told]) -> list[str]:
    if len(group) == 1:
        return one_by_one(kind, group)
    keys = list(dict.fromkeys(item.key for item in group))
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    metrics = ", ".join(sorted({item.metric for item in group}))
    return [f"{kind}: {len(group)} of {metrics}: {_merged(group)}  [{', '.join(keys[:NAMED])}{more}]"]


def _merged(group: Sequence[Told]) -> str:
    """The reason with the range of each percentage; of what else moved, only what did for all."""
    heads, tails = zip(*(_parts(item.reason) for item in group), strict=True)
    columns = zip(*(NUMBER.findall(head) for head in heads), strict=True)
    ranges = iter([_range(column) for column in columns])
    merged = NUMBER.sub(lambda _: next(ranges), heads[0])
    shared = [part for part in tails[0].split("; ") if part and all(part in tail.split("; ") for tail in tails)]
    return f"{merged}; {SINCE}{'; '.join(shared)}" if shared else merged


def _range(numbers: Sequence[str]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if low == high else f"{low} … {high}"


def _parts(reason: str) -> tuple[str, str]:
    """What was found, and what moved since, where that is said."""
    head, _, tail = reason.partition(SINCE)
    return head.removesuffix("; "), tail
