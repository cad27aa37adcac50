"""What a run owes its baseline: what is gone from the catalogue, and not what it was not asked for."""

from __future__ import annotations

import pytest

from perf.catalogue import Catalogue, Selection
from perf.contract import Core, Preset, Shape, Variant, Work
from perf.runners import ModuleRunner
from perf.scope import owed

PRESET = Preset(lambda: None, lambda shape, seed: {}, (Shape("s", {}),))  # type: ignore[arg-type, return-value]
CATALOGUE = Catalogue(
    {"toy": Core("toy", "s", "here", {"tiny": PRESET}, ("y",), lambda shape: Work("rows", 1))},
    {"eager-fp32": Variant("eager-fp32", lambda plan: ModuleRunner(lambda: None, "float32", "cpu"))},
)
KEPT = "toy/tiny/eager-fp32/s/cpu"


@pytest.mark.parametrize("key", [f"{KEPT}#coldstart", f"{KEPT}#warmup", "toy/tiny/eager-fp32/weights/cpu#load.pt"])
def test_what_else_was_measured_of_a_case_is_not_owed_as_long_as_the_case_is_there(key: str) -> None:
    assert owed(CATALOGUE, Selection(), [KEPT, key], {KEPT}, {}) == []


@pytest.mark.parametrize(
    "key",
    [
        "gone/tiny/eager-fp32/s/cpu",
        "gone/tiny/eager-fp32/s/cpu#coldstart",
        "gone/tiny/eager-fp32/weights/cpu#load.pt",
        "toy/tiny/gone/s/cpu#warmup",
    ],
)
def test_what_is_gone_is_owed(key: str) -> None:
    ((found, why),) = owed(CATALOGUE, Selection(), [KEPT, key], {KEPT}, {})
    assert found == key
    assert why.startswith("no longer in the catalogue")


def test_what_was_asked_for_and_gave_no_number_says_why() -> None:
    assert owed(CATALOGUE, Selection(), [KEPT], set(), {KEPT: "did not build"}) == [(KEPT, "did not build")]
