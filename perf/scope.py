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
    `left_out` maps keys that were asked for and gave no number to the reason. A case's speaks for all that is kept of
    the case, its start (`#coldstart`) as well.
    """
    unmeasured = sorted({key for key in kept if selection.covers(Case.parse(key))} - measured)
    if not unmeasured:
        return []
    cases, skips = expand(catalogue, Selection(presets=("*",), devices=selection.devices, matrix="full"))
    there = [*cases, *(skip.case for skip in skips)]
    known = {case.key for case in there} | {_weights(case) for case in there}
    skipped = {skip.case.key: skip.reason for skip in skips} | _unreadable(catalogue, skips)
    reasons = ((key, _why(key, known, skipped, left_out)) for key in unmeasured)
    return [(key, why) for key, why in reasons if why]


def _weights(case: Case) -> str:
    """What reading the weights of the case's preset is kept under, but for what stands behind the `#`."""
    return replace(case, variant=EAGER, shape=WEIGHTS).key


def _unreadable(catalogue: Catalogue, skips: Iterable[Skip]) -> dict[str, str]:
    """Why the weights of cores that cannot be built here are not read."""
    lacking = {core: catalogue.cores[core].missing() for core in {skip.case.core for skip in skips}}
    found = ((_weights(skip.case), lacking[skip.case.core]) for skip in skips)
    return {key: reason for key, reason in found if reason}


def _why(key: str, known: Set[str], skipped: Mapping[str, str], left_out: Mapping[str, str]) -> str:
    own = Case.parse(key).key  # a start or a warm-up of a case is there as long as the case is
    for asked in (key, own):
        if asked in left_out:
            return left_out[asked]
    if own in skipped:
        return f"cannot run here: {skipped[own]}"
    return (
        "" if own in known else "no longer in the catalogue: renamed or removed; delete it from the baseline if meant"
    )
