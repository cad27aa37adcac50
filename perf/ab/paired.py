"""The word for a change, from the log ratios head / base of several restarts.

*Model.* One restart is one pair of fresh processes: d_r = μ + b_r + e_r. b_r is what the two processes happened to get
(memory layout, placement): it is the same for all samples of a restart, so that no number of them averages it away. e_r
is what is left of the noise within. Both are in the spread of the d_r, so the restart is the unit of variation: μ's
interval is Student's, mean(d) ± t(R - 1) · sd(d)/√R, which needs to know neither share.

*Level.* Bonferroni over all tests (case × clock) and over the planned looks: these are repeated confidence intervals
(Jennison & Turnbull 1984), which hold together with probability 1 - `FAMILY_LEVEL` whatever rule stops the sampling and
however the tests depend on one another. Looks are at fixed counts of restarts, at one level each; a look because time
is up takes the next one's place.

*Words.* With δ the resolution, on logs, and half-width h: a change is an interval without 0 whose centre is beyond δ/2;
`same` is an interval inside ±δ. As soon as h < δ/2 one of the two holds, so a change of 0 is called one in at most
`FAMILY_LEVEL` of commands, and one of δ passes as `same` as rarely. A change between may be called either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from perf.outcome import Word

FAMILY_LEVEL = 0.01
"""How often a whole command may have an interval, of any test at any look, that misses the truth."""

LOOKS = (4, 6, 9, 14, 20, 28, 40)
"""After how many restarts to look. Not before four: where processes have two modes, three alike are not rare."""

POWER = 0.8
"""The share of commands that would have seen a change of `smallest_visible`."""


@dataclass(frozen=True)
class Interval:
    """Of the log ratio head / base: `centre ± half_width`. `error` is the centre's standard error, with `df` degrees of
    freedom."""

    centre: float
    half_width: float
    error: float
    df: int

    @property
    def smallest_visible(self) -> float:
        """The relative slowdown (0.05 is 5 %) that would have been outside its interval with probability `POWER`."""
        seen = self.half_width + self.error * float(special.stdtrit(self.df, POWER)) if self.df else math.inf
        return math.expm1(seen) if seen < 700 else math.inf


UNKNOWN = Interval(0.0, math.inf, math.inf, 0)
"""What fewer than two restarts say."""


def looks(restarts: int) -> tuple[int, ...]:
    """The planned looks where there are at most `restarts` of them; the last is at `restarts`.

    Raises:
        ValueError: fewer than two restarts, which have no spread.
    """
    if restarts < 2:
        raise ValueError(f"{restarts} restarts: 2 or more are wanted, for a spread between them")
    return (*(look for look in LOOKS if look < restarts), restarts)


def level(tests: int, planned: Sequence[int]) -> float:
    """The level of one interval: two-sided, at one look."""
    return FAMILY_LEVEL / (tests * len(planned))


def interval(values: Sequence[float], level: float) -> Interval:
    """Student's interval for the mean of `values`, the log ratio of each restart; unknown below two of them."""
    if len(values) < 2:
        return UNKNOWN
    found = np.asarray(values, dtype=np.float64)
    df, error = len(found) - 1, float(found.std(ddof=1)) / math.sqrt(len(found))
    return Interval(float(found.mean()), _t(df, level) * error, error, df)


def judge(found: Interval, resolution: float) -> Word:
    """`resolution` is a relative growth (0.03 is 3 %), as a shrinkage on logs too."""
    limit, size = math.log1p(resolution), abs(found.centre)
    if size > max(found.half_width, limit / 2):
        return Word.REGRESSED if found.centre > 0 else Word.IMPROVED
    return Word.SAME if size + found.half_width < limit else Word.INCONCLUSIVE


def hopeless(found: Interval, resolution: float, level: float, restarts: int) -> bool:
    """Whether even `restarts` of them would leave the interval too wide to decide, and nothing large is in sight. To
    stop then can only cost a word, never give a false one."""
    runs = found.df + 1
    if runs < LOOKS[1] or runs >= restarts:
        return False
    at_last = _t(restarts - 1, level) * found.error * math.sqrt(runs / restarts)
    return at_last > 1.5 * math.log1p(resolution) and abs(found.centre) < at_last


def _t(df: int, level: float) -> float:
    return -float(special.stdtrit(df, level / 2))
