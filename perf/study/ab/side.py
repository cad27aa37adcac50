"""A side that can also be given extra work: `python -m perf.study.ab.side` in place of `perf.ab.side`. It speaks that
one's protocol, with one request and one field more:

    {"ask": "calibrate", "key": …, "levels": [share, …]}  → {"amounts": [{"level", "elements", "shares"}, …]}
    {"ask": "run", …, "elements": n}                      → the same calls, each with so much extra work

Levels are shares of the case's shortest call; one that no amount of work comes near to is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perf.ab.side import main

if TYPE_CHECKING:
    from perf.contract import Case
    from perf.session import Session
    from perf.study.ab.bench import LadenBench


def laden_bench(run: Session, cases: Mapping[str, Case], skips: Mapping[str, str], replaced: Path | None) -> LadenBench:
    """Made once pytest has collected: it imports torch."""
    from perf.study.ab.bench import LadenBench

    return LadenBench(run, cases, skips, replaced)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], laden_bench))
