"""What the baseline has and this run owes: a case that is gone must not pass in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from perf.catalogue import Catalogue, Selection, expand
from perf.contract import WEIGHTS, Case, Skip

EAGER = "eager-fp32"


def owed(
    catalogue: Catalogue, selection: Selection, kept: Iterable[str], measured: Set[str], left_out: Mapping[str, str]
) -> list[tuple[str, str]]:
    """(key, why) for each key of the baseline (`kept`) that the selection covers and that was not measured.

    A case that the catalogue still has and that this run was not asked for (`-k`, the standard matrix) is not owed;
    `left_out` maps keys that were asked for and gave no number to the reason.
    """
    unmeasured = sorted({key for key in kept if selection.covers(Case.parse(key))} - measured)
    if not unmeasured:
        return []
    cases, skips = expand(catalogue, Selection(presets=("*",), devices=selection.devices, matrix="full"))
    known = {case.key for case in cases} | {_weights(case) for case in cases}
    skipped = {skip.case.key: skip for skip in skips}
    reasons = ((key, _why(key, known, skipped, left_out)) for key in unmeasured)
    return [(key, why) for key, why in reasons if why]


def _weights(case: Case) -> str:
    """What reading the weights of the case's preset is kept under, but for what stands behind the `#`."""
    return replace(case, variant=EAGER, shape=WEIGHTS).key


def _why(key: str, known: Set[str], skipped: Mapping[str, Skip], left_out: Mapping[str, str]) -> str:
    if key in left_out:
        return left_out[key]
    own = Case.parse(key).key  # a start or a warm-up of a case (`#coldstart`) is there as long as the case is
    if own in skipped:
        return f"cannot run here: {skipped[own].reason}"
    return (
        "" if own in known else "no longer in the catalogue: renamed or removed; delete it from the baseline if meant"
    )
