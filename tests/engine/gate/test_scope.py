"""What a run owes its baseline: what is gone from the catalogue, and not what it was not asked for."""

from __future__ import annotations

from dataclasses import replace

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


@pytest.mark.parametrize("key", [KEPT, f"{KEPT}#coldstart", f"{KEPT}#warmup"])
def test_what_is_said_of_a_case_is_said_of_its_start_and_its_warm_up(key: str) -> None:
    assert owed(CATALOGUE, Selection(), [key], set(), {KEPT: "cannot run here: no"}) == [(key, "cannot run here: no")]


def test_what_is_said_of_a_warm_up_is_not_said_of_its_case() -> None:
    keys = [KEPT, f"{KEPT}#coldstart", f"{KEPT}#warmup"]
    assert owed(CATALOGUE, Selection(), keys, set(), {keys[2]: "one shape"}) == [(keys[2], "one shape")]


@pytest.mark.parametrize(("missing", "said"), [("no wheel", "cannot run here: no wheel"), (None, None)])
def test_weights_of_a_core_that_cannot_be_built_are_owed(missing: str | None, said: str | None) -> None:
    key = "toy/tiny/eager-fp32/weights/cpu#load.pt"
    without = replace(CATALOGUE, cores={"toy": replace(CATALOGUE.cores["toy"], missing=lambda: missing)})
    assert owed(without, Selection(), [key], set(), {}) == ([(key, said)] if said else [])


def test_weights_do_not_wait_for_a_variant() -> None:
    variants = {"onnx": replace(CATALOGUE.variants["eager-fp32"], name="onnx", missing=lambda device: "no onnx")}
    key = "toy/tiny/eager-fp32/weights/cpu#load.pt"
    assert owed(replace(CATALOGUE, variants=variants), Selection(), [key], set(), {}) == []
