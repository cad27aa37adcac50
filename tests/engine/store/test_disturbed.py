"""What keeps a run from becoming a baseline, read off a row's notes."""

from __future__ import annotations

import pytest

from perf.disturbance import disturbed
from perf.measure.sampling import Samples


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        ({}, ""),
        ({"sampling": Samples((1.0,) * 9, 0.001, True, dropped=2).words}, ""),  # dropped: the others are clean
        ({"sampling": Samples((1.0,) * 9, 0.1, False, slowed=True).words}, "the device was slowed down"),
        ({"foreign_processes": "2"}, "others on the card: 2 processes"),
    ],
)
def test_others_work_and_a_slowed_card_are_no_baseline(notes: dict[str, str], why: str) -> None:
    assert disturbed(notes) == why
