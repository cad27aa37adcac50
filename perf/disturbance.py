"""What else was at work while a case was measured, as its row's notes tell: the names of those notes, and what they
mean for its times."""

from __future__ import annotations

from collections.abc import Mapping

FOREIGN = "foreign_processes"
"""How many other processes were on the card."""

WAITED = "waited_for_others"
"""Share of the time for which others had the processor."""

LIMIT = 0.05
"""The most of that in a case's own time. On two cores it is 0.01 with nothing beside, and 0.3 with one busy process."""

SAMPLING, SLOWED = "sampling", "the device was slowed down"
"""A note, and the words with which it may end."""

DEVICE = frozenset({"device_s"})
"""Kernel time does not wait for the host's processor."""


def disturbed(notes: Mapping[str, str], metric: str = "") -> str:
    """Why a row with these notes is not the case's own: others' work on the card or the processor, or a card that was
    slowed down. Empty where it is, or where `metric`, if one is named, does not depend on it.
    """
    others = notes.get(FOREIGN, "")
    if others:
        return f"others on the card: {others} process{'' if others == '1' else 'es'}"
    if notes.get(SAMPLING, "").endswith(SLOWED):
        return SLOWED
    return "" if metric in DEVICE else _beside_others(notes.get(WAITED, "0"))


def but_one(notes: Mapping[str, str]) -> dict[str, str]:
    """Those of a row that was measured while one process of ours waited on the card: it is not others' work."""
    strangers = int(notes.get(FOREIGN, "0")) - 1
    kept = {name: said for name, said in notes.items() if name != FOREIGN}
    return {**kept, FOREIGN: str(strangers)} if strangers > 0 else kept


def _beside_others(waited: str) -> str:
    try:
        share = float(waited)
    except ValueError:
        return f"{WAITED} is {waited!r}, and no share"
    return "" if share <= LIMIT else f"others had the processor for {share:.0%} of the time"
