"""The one rule of parity, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from perf.check.parity import agrees_with_itself, judge, rms, rmse, sqnr_db
from perf.contract import Core, Outputs, Task, Tolerance, Variant, Work

REFERENCE = (torch.tensor([3.0, 4.0], dtype=torch.float64),)  # RMS = sqrt((9 + 16) / 2) = 3.5355339


def core(tolerance: Tolerance = Tolerance(floor=0.0), task: Task | None = None) -> Core:
    return Core("c", "s", "here", {}, ("y",), lambda shape: Work("rows", 1), tolerance=tolerance, task=task)


def variant(dtype: str = "float32", lossy: bool = False) -> Variant:
    return Variant("v", build=lambda blueprint: None, dtype=dtype, lossy=lossy)  # type: ignore[arg-type, return-value]


def off_by(amount: float, dtype: torch.dtype = torch.float32) -> Outputs:
    return ((REFERENCE[0] + amount).to(dtype),)


def test_rmse_and_rms_by_hand() -> None:
    assert rmse(torch.tensor([1.0, 5.0]), torch.tensor([1.0, 1.0])) == pytest.approx(math.sqrt(8.0))
    assert rms(REFERENCE[0]) == pytest.approx(3.5355339, rel=1e-7)


def test_rmse_of_integers_is_the_share_that_differs() -> None:
    assert rmse(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 0, 4])) == 0.25


@pytest.mark.parametrize(("amount", "ok"), [(0.19, True), (0.21, False)])
def test_twice_eagers_error_is_the_limit(amount: float, ok: bool) -> None:
    assert judge(off_by(amount), off_by(0.1), REFERENCE, core(), variant()).ok is ok


@pytest.mark.parametrize(("dtype", "ok"), [("float32", False), ("float16", True), ("bfloat16", True)])
def test_sixteen_bit_variants_have_three_times(dtype: str, ok: bool) -> None:
    of = getattr(torch, dtype)
    eager, outputs = off_by(0.0625, of), off_by(0.15625, of)  # all exact in both: limits 0.125 and 0.1875
    assert judge(outputs, eager, REFERENCE, core(), variant(dtype)).ok is ok


@pytest.mark.parametrize(("floor", "ok"), [(0.029, True), (0.028, False)])
def test_floor_is_in_units_of_the_references_rms(floor: float, ok: bool) -> None:
    exact = (REFERENCE[0].float(),)  # eager without error: floor · 3.5355 alone is the limit, against 0.1
    assert judge(off_by(0.1), exact, REFERENCE, core(Tolerance(floor=floor)), variant()).ok is ok


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_every_element_is_finite(bad: float) -> None:
    found = judge((torch.tensor([3.0, bad]),), off_by(0.0), REFERENCE, core(), variant())
    assert not found.ok
    assert "1 of 2 elements are not finite" in found.reason


def test_shape_and_dtype_are_eagers() -> None:
    wider = judge((torch.zeros(3),), off_by(0.0), REFERENCE, core(), variant())
    other = judge(off_by(0.0, torch.float64), off_by(0.0), REFERENCE, core(), variant())
    assert "(3,) where eager gives torch.float32 (2,)" in wider.reason
    assert "torch.float64 (2,) where eager gives torch.float32" in other.reason


def test_a_missing_output_is_named() -> None:
    assert "0 outputs where the core declares 1: y" in judge((), (), (), core(), variant()).reason


def test_sqnr_by_hand() -> None:
    assert sqnr_db(error=0.1, signal=1.0) == pytest.approx(20.0)
    assert sqnr_db(error=0.0, signal=1.0) == math.inf


@pytest.mark.parametrize(("amount", "ok"), [(0.35, True), (0.36, False)])
def test_lossy_variants_meet_the_sqnr_floor(amount: float, ok: bool) -> None:
    floor = core(Tolerance(sqnr_db=20.0))  # 20 dB: a tenth of the RMS of 3.5355
    assert judge(off_by(amount), off_by(0.0), REFERENCE, floor, variant(lossy=True)).ok is ok


@pytest.mark.parametrize(("at_least", "ok"), [(0.5, True), (0.6, False)])
def test_lossy_variants_meet_the_task(at_least: float, ok: bool) -> None:
    task = Task("agreement", lambda reference, outputs: 0.5, at_least)
    assert judge(off_by(0.1), off_by(0.0), REFERENCE, core(task=task), variant(lossy=True)).ok is ok


def test_the_output_nearest_its_limit_is_named() -> None:
    two = Core("c", "s", "here", {}, ("good", "bad"), lambda shape: Work("rows", 1), tolerance=Tolerance(floor=0.0))
    found = judge(off_by(0.1) + off_by(0.9), off_by(0.1) + off_by(0.1), REFERENCE * 2, two, variant())
    assert found.reason.startswith("bad: RMSE 9.00e-01 over the limit 2.00e-01")


def test_an_unsteady_eager_is_no_measure() -> None:
    assert agrees_with_itself(off_by(0.0), off_by(0.0), REFERENCE, Tolerance()) == ""
    assert "moved by RMSE 1.00e-01" in agrees_with_itself(off_by(0.0), off_by(0.1), REFERENCE, Tolerance())


@pytest.mark.parametrize(("again", "steady"), [(1.0625, True), (1.125, False)])
def test_eager_may_move_by_a_tenth_of_its_own_error(again: float, steady: bool) -> None:
    found = agrees_with_itself(off_by(1.0), off_by(again), REFERENCE, Tolerance(floor=0.0))
    assert (found == "") is steady


@pytest.mark.parametrize(("eager", "ok"), [(0.125, True), (0.140625, False)])
def test_a_limit_of_half_of_what_the_reference_varies_by_is_no_limit(eager: float, ok: bool) -> None:
    """3 and 4 lie 0.5 from their mean: 2 · 0.125 = 0.25 is half of that, 2 · 0.140625 = 0.28125 is more."""
    found = judge(off_by(0.0), off_by(eager), REFERENCE, core(), variant())
    assert found.ok is ok
    assert ok or found.reason.startswith(
        "y: a limit of 2.81e-01 lets anything pass beside values that vary by 5.00e-01"
    )
    assert found.departed is False


def test_each_output_is_told_apart_by_its_limit() -> None:
    two = Core("c", "s", "here", {}, ("good", "blind"), lambda shape: Work("rows", 1), tolerance=Tolerance(floor=0.0))
    found = judge(off_by(0.1) + off_by(0.0), off_by(0.1) + off_by(2.0), REFERENCE * 2, two, variant())
    assert found.reason.startswith("blind: a limit of 4.00e+00")


@pytest.mark.parametrize(("eager", "ok"), [(0.0, True), (2**-40, False)])
def test_an_output_of_zeros_is_told_only_from_zeros(eager: float, ok: bool) -> None:
    zeros = (torch.zeros(2, dtype=torch.float64),)
    assert judge((torch.zeros(2),), (torch.full((2,), eager),), zeros, core(), variant()).ok is ok


def test_an_output_without_elements_is_right() -> None:
    nothing = (torch.zeros(2, 0, dtype=torch.float64),)
    assert agrees_with_itself(nothing, nothing, nothing, Tolerance()) == ""
    assert judge(nothing, nothing, nothing, core(), variant()).ok


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_before_the_variant_is_said_so(bad: float) -> None:
    broken = (torch.tensor([3.0, bad]),)
    assert agrees_with_itself(broken, broken, REFERENCE, Tolerance()).startswith(
        "eager itself gives elements that are not"
    )
    found = judge(
        off_by(0.0), off_by(0.0), (torch.tensor([3.0, bad], dtype=torch.float64),), core(), variant(lossy=True)
    )
    assert found.reason == "y: the reference has elements that are not finite"


CODES = torch.tensor([1, 2, 3, 4])


@pytest.mark.parametrize(("beside", "ok"), [(REFERENCE, True), ((), False)])
def test_integers_may_be_lost_beside_the_floats_that_they_are_rounded_from(beside: Outputs, ok: bool) -> None:
    others = torch.tensor([1, 2, 0, 0])  # eager: half of them differ, so that the limit is three quarters
    exact = tuple(item.float() for item in beside)
    names = ("levels", "codes")[-1 - len(beside) :]
    both = Core("c", "s", "here", {}, names, lambda shape: Work("rows", 1))
    assert judge((*exact, CODES), (*exact, others), (*beside, CODES), both, variant()).ok is ok


@pytest.mark.parametrize(("codes", "ok"), [([1, 0, 0, 0], True), ([0, 0, 0, 0], False)])
def test_integers_are_never_all_wrong(codes: list[int], ok: bool) -> None:
    """Eager has three of four wrong: 2 · 0.75 would allow all, half way from there to all is 0.875."""
    exact, eager = REFERENCE[0].float(), torch.tensor([1, 0, 0, 0])
    both = Core("c", "s", "here", {}, ("levels", "codes"), lambda shape: Work("rows", 1))
    assert judge((exact, torch.tensor(codes)), (exact, eager), (REFERENCE[0], CODES), both, variant()).ok is ok


def test_a_lossy_variant_is_judged_by_its_noisiest_output() -> None:
    """Of the first, eager is far off as well: it is the furthest within its limit, at 20·log10(3.5355 / 3) = 1.4 dB."""
    two = Core(
        "c", "s", "here", {}, ("noisy", "clean"), lambda shape: Work("rows", 1), tolerance=Tolerance(sqnr_db=15.0)
    )
    found = judge(off_by(3.0) + off_by(0.01), off_by(3.0) + off_by(0.0), REFERENCE * 2, two, variant(lossy=True))
    assert found.reason == "noisy: SQNR 1.4 dB below the floor 15.0 dB"


def test_integers_that_floats_are_rounded_to_do_not_judge_a_lossy_variant() -> None:
    both = Core(
        "c", "s", "here", {}, ("levels", "codes"), lambda shape: Work("rows", 1), tolerance=Tolerance(sqnr_db=15.0)
    )
    levels, codes = off_by(0.01)[0], torch.tensor([1, 2, 0, 0])
    found = judge((levels, codes), (off_by(0.0)[0], CODES), (REFERENCE[0], CODES), both, variant(lossy=True))
    assert found.ok
    assert found.sqnr_db == pytest.approx(20 * math.log10(3.5355339 / 0.01), abs=1e-3)
