"""The covering matrix: every option value at least once, worked out by hand on four variants and held for our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perf.catalogue import discover
from perf.contract import Variant
from perf.covering import chosen, option_values

OWN = discover([], [], Path(__file__).parents[3]).variants


def variant(name: str, standard: bool = False, **options: Any) -> Variant:
    return Variant(
        name, lambda plan: None, standard_on=("cpu",) if standard else (), options=options, family="f"  # type: ignore[arg-type, return-value]
    )  # fmt: skip


FOUR = [
    variant("plain", standard=True, mode="a", level=1),
    variant("same", mode="a", level=1),
    variant("second", mode="b", level=1),
    variant("both", mode="b", level=2),
]
ALL = frozenset(made.name for made in FOUR)


@pytest.mark.parametrize(
    ("matrix", "names"),
    [
        ("standard", ["plain"]),
        ("covering", ["plain", "second", "both"]),  # "same" brings nothing new
        ("full", ["plain", "same", "second", "both"]),
    ],
)
def test_what_a_matrix_holds(matrix: str, names: list[str]) -> None:
    assert chosen(FOUR, "cpu", matrix, ALL) == names


def test_a_variant_that_cannot_run_covers_nothing() -> None:
    assert chosen(FOUR, "cpu", "covering", ALL - {"second"}) == ["plain", "both"]
    assert chosen(FOUR, "cpu", "covering", ALL - {"plain"}) == ["plain", "same", "second", "both"]


def test_options_in_options_count_one_by_one() -> None:
    made = variant("v", options={"x": 1, "y": True})
    assert set(option_values(made)) == {("f", "dtype", "float32"), ("f", "options.x", "1"), ("f", "options.y", "True")}


def test_our_covering_matrix_has_every_option_value_that_can_run_here() -> None:
    runs = frozenset(n for n, made in OWN.items() if "cpu" in made.devices and made.missing("cpu") is None)
    names = chosen(OWN.values(), "cpu", "covering", runs)
    wanted = {value for name in runs for value in option_values(OWN[name])}
    assert wanted == {value for name in names if name in runs for value in option_values(OWN[name])}
    assert len(names) < len(OWN)
