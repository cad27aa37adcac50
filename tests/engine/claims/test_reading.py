"""What a claim reads of records: one value a run, and variants beside each other within the runs that have both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perf.claims.answers import geometric_mean, pairs, span, time
from perf.claims.reading import MissingError, readings
from tests.engine.claim_toys import reading, record, row

KEY, FAST = "toy/tiny/eager-fp32/b5/cpu", "toy/tiny/fast/b5/cpu"


def test_a_run_is_one_value_and_counters_and_notes_are_the_newest_runs() -> None:
    runs = [
        record(row(KEY, value, notes={"n": str(at)}, graphs=at), at=at, command=f"run {at}")
        for at, value in enumerate((0.5, 0.125, 0.25), start=1)
    ]
    (found,) = readings(runs)
    assert (found.value(KEY), found.counter(KEY, "graphs"), found.note(KEY, "n")) == (0.25, 3, "3")
    assert [item.command for item in found.used.values()] == ["run 1", "run 2", "run 3"]
    assert found.counter(KEY, "breaks", 0) == 0
    for absent in (
        lambda: found.value(KEY, "device_s"),
        lambda: found.counter(KEY, "breaks"),
        lambda: found.note(KEY, "x"),
        lambda: found.keys("x*"),
        lambda: found.of_one_run({KEY: ("device_s",)}),
    ):
        with pytest.raises(MissingError):
            absent()


@pytest.mark.parametrize("said", ["nan", "inf", "-1", "fast", ""])
def test_a_note_that_is_no_number_is_as_good_as_none(said: str) -> None:
    found = reading(row(KEY, 1.0, {"n": "2.5e-1 ≤ 3", "m": said}))
    assert found.number(KEY, "n") == 0.25
    with pytest.raises(MissingError, match=f"{KEY}: m .'{said}' is no number of 0 or more."):
        found.number(KEY, "m")


def test_two_variants_are_compared_within_the_runs_that_have_both() -> None:
    """Of two runs with both the medians are 0.9 and 0.3; a third, of one alone, would make the first 0.6."""
    runs = [
        record(row(KEY, 0.6), row(FAST, 0.2), command="one"),
        record(row(KEY, 0.1), at=2, command="two"),
        record(row(KEY, 1.2), row(FAST, 0.4), at=3, command="three"),
    ]
    (found,) = readings(runs)
    assert found.value(KEY) == 0.6
    (found,) = readings(runs)
    (pair,) = pairs(found, "eager-fp32", "fast")
    assert (pair.first, pair.second) == (pytest.approx(0.9), pytest.approx(0.3))
    assert [item.command for item in found.used.values()] == ["one", "three"]
    assert not found.said.apart


def test_a_run_of_other_work_is_not_compared_with() -> None:
    old = record(replace(row(KEY, 9.0), workload="old"), row(FAST, 1.0))
    (found,) = readings([old, record(row(KEY, 0.6), at=2)])
    (pair,) = pairs(found, "eager-fp32", "fast")
    assert (pair.ratio, list(found.said.apart)) == (0.6, [(KEY, FAST)])


def test_pairs_are_of_one_case_in_two_variants() -> None:
    rows = row(KEY, 0.6), row(FAST, 0.3), row("toy/tiny/eager-fp32/b9/cpu", 1.0), row(f"{KEY}#coldstart", cold_s=1.0)
    (pair,) = pairs(reading(*rows), "eager-fp32", "fast")
    assert (pair.case.shape, pair.first, pair.second, pair.ratio) == ("b5", 0.6, 0.3, 2.0)
    with pytest.raises(MissingError):
        pairs(reading(*rows), "eager-fp32", "fast", cores=("other",))


def test_time_is_the_devices_where_it_has_its_own() -> None:
    found = reading(row(KEY, 0.6, device_s=0.1), row(FAST, 0.3))
    assert (time(found, KEY), time(found, FAST)) == (0.1, 0.3)


def test_ratios_in_words() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert (span([1.204, 1.196]), span([2.0, 0.5])) == ("1.20×", "0.50× to 2.00×")
