"""What else was at work while a case was measured, as its row's notes tell."""

from __future__ import annotations

from collections.abc import Mapping

from perf.measure import processor
from perf.measure.nvml import FOREIGN
from perf.measure.sampling import SLOWED

DEVICE = frozenset({"device_s", "device_busy_s"})
"""Kernel time does not wait for the host's processor."""


def disturbed(notes: Mapping[str, str], metric: str = "") -> str:
    """Why a row with these notes is not the case's own: others' work on the card or the processor, or a card that was
    slowed down. Empty where it is, or where `metric`, if one is named, does not depend on it.
    """
    others = notes.get(FOREIGN, "")
    if others:
        return f"others on the card: {others} process{'' if others == '1' else 'es'}"
    if notes.get("sampling", "").endswith(SLOWED):
        return SLOWED
    waited = float(notes.get(processor.NOTE, 0))
    if waited > processor.LIMIT and metric not in DEVICE:
        return f"others had the processor for {waited:.0%} of the time"
    return ""
