"""Figures and tables of the study's page."""

from __future__ import annotations

from collections.abc import Sequence

from perf.study.rates import Rate


def interval(rate: Rate | None) -> str:
    """`2.1% [0.4, 6.0]`; a dash where nothing was judged."""
    return "–" if rate is None else f"{percent(rate.share)} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def percent(share: float) -> str:
    return f"{share:.1%}" if share < 10 else "> 1000%"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]
