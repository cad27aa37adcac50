"""Where the noise of a comparison comes from: what two processes happened to get, and what is left within a restart.

A restart's log ratio is d = μ + b + e (see `perf.ab.paired`). One pair of processes is measured several times over, at
each level: b is the same each time, e is not. So the covariance of two levels over restarts is the variance of b, and
what is left of the variance of d is that of e. With w² the variance of e for one second of measuring, c the seconds
that a restart takes before it, and t those of measuring, R restarts have the variance (b² + w²/t)/R and take R (c + t),
so that for a given time t = w √c / b leaves the least (two-stage sampling: Cochran 1977, Sampling Techniques, 10.6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from perf.study.ab.records import Recorded

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """One clock of one case. `call_s` is the base's median call; `between` and `within` are standard deviations of the
    log ratio, None where no level tells them apart; `total` is that of both. `seen` is by level how much slower the
    head was than in the same restart without extra work, the median over restarts. `before_s` and `measuring_s` are
    medians of a restart's seconds until the case is built and for measuring it as it is."""

    case: str
    clock: str
    call_s: float
    total: float
    between: float | None
    within: float | None
    seen: dict[float, float]
    pairs: float
    before_s: float
    measuring_s: float

    @property
    def best_s(self) -> float | None:
        """Seconds of measuring in a restart that would leave the least noise in a given time; None where it is not
        known, infinite where processes do not differ."""
        if self.between is None or self.within is None:
            return None
        if self.between == 0:
            return math.inf
        return self.within * math.sqrt(self.measuring_s * self.before_s) / self.between


def spread(restarts: Sequence[Recorded], case: str, clock: str, levels: Sequence[float]) -> Spread:
    """Of two restarts or more that have the case as it is."""
    own = [restart.at_level(0.0)[case] for restart in restarts]
    total = float(np.var([point.found[clock].ratio for point in own], ddof=1))
    paired = {level: both for level in levels if len(both := _both(restarts, case, clock, level)) > 1}
    between, within = None, None
    if paired:
        shared = max(0.0, fmean(float(np.cov(both.T)[0, 1]) for both in paired.values()))
        between, within = math.sqrt(min(shared, total)), math.sqrt(max(0.0, total - shared))
    return Spread(
        case=case,
        clock=clock,
        call_s=median(point.found[clock].base_s for point in own),
        total=math.sqrt(total),
        between=between,
        within=within,
        seen={level: math.expm1(float(np.median(both[:, 1] - both[:, 0]))) for level, both in paired.items()},
        pairs=median(point.found[clock].pairs for point in own),
        before_s=median(restart.start_s + restart.built_s[case] for restart in restarts),
        measuring_s=median(point.seconds for point in own),
    )


def _both(restarts: Sequence[Recorded], case: str, clock: str, level: float) -> Floats:
    """[restarts, 2] float64: log ratios without extra work and at the level, of the restarts that have both."""
    pairs = [(restart.at_level(0.0)[case], restart.at_level(level).get(case)) for restart in restarts]
    return np.array([(own.found[clock].ratio, slow.found[clock].ratio) for own, slow in pairs if slow])


def correlation(restarts: Sequence[Recorded], cases: Sequence[str], clocks: Sequence[str]) -> float:
    """Of two cases' log ratios over restarts, without extra work: the mean over all pairs of cases and over clocks."""
    if len(cases) < 2:
        return 0.0
    off_diagonal = ~np.eye(len(cases), dtype=bool)
    found = [
        np.corrcoef([[restart.at_level(0.0)[case].found[clock].ratio for restart in restarts] for case in cases])
        for clock in clocks
    ]
    return float(np.nan_to_num(np.mean([matrix[off_diagonal].mean() for matrix in found])))


def independent_cases(cases: int, correlation: float) -> float:
    """As how many independent ones correlated cases count in a mean: Kish's (1965) design effect."""
    return cases / (1 + (cases - 1) * max(0.0, correlation))
