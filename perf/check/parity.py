"""Parity: one rule for all variants.

With e(x) = RMSE(x, reference), per output: a variant passes when e(variant) ≤ k · e(eager at its own dtype) +
floor, with floor in units of the reference's RMS. For integer outputs e is the share of elements that differ. Every
element is finite,
shape and dtype are eager's. Quantised (`lossy`) variants meet the core's SQNR floor and its task measure instead.
The reference is the core in float64 where it fits (the approach of PyTorch's own dynamo benchmarks).

A measure that tells nothing is refused: an eager core that does not repeat itself, and one whose error at the dtype is
so large that the limit would let anything pass (zeros are off by the reference's RMS).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from perf.contract import Core, Outputs, Tolerance, Variant

SIXTEEN_BIT = frozenset({"float16", "bfloat16"})
STEADY = 0.1
"""Share of eager's own error by which two of its calls may differ: on a GPU sums may be ordered otherwise each time."""
TELLING = 0.5
"""The largest limit, as a share of the reference's RMS, by which a wrong result is still told from a right one."""


@dataclass(frozen=True)
class Parity:
    """`ok`, or the `reason` it is not. `error` and `limit` belong to the output that is nearest its limit."""

    ok: bool
    error: float
    limit: float
    sqnr_db: float
    task: float | None = None
    reason: str = ""


def rmse(outputs: torch.Tensor, reference: torch.Tensor) -> float:
    """Root of the mean squared difference, in float64; of integers and booleans, the share that differs."""
    if not reference.is_floating_point():
        return (outputs != reference).double().mean().item()
    return (outputs.double() - reference.double()).square().mean().sqrt().item()


def rms(tensor: torch.Tensor) -> float:
    """Root mean square, in float64; 1 for integers, whose error is a share."""
    return tensor.double().square().mean().sqrt().item() if tensor.is_floating_point() else 1.0


def judge(outputs: Outputs, eager: Outputs, reference: Outputs, core: Core, variant: Variant) -> Parity:
    """`eager` is the core at the variant's dtype, uncompiled; all three on the CPU, one tensor per `core.outputs`."""
    reason = _form(outputs, eager, core.outputs)
    if reason:
        return Parity(False, math.nan, math.nan, math.nan, reason=reason)
    k = core.tolerance.k16 if variant.dtype in SIXTEEN_BIT else core.tolerance.k
    errors = [rmse(got, ref) for got, ref in zip(outputs, reference, strict=True)]
    limits = [k * rmse(own, ref) + core.tolerance.floor * rms(ref) for own, ref in zip(eager, reference, strict=True)]
    worst = max(range(len(errors)), key=lambda i: errors[i] / limits[i] if limits[i] else errors[i] * math.inf)
    sqnr = sqnr_db(errors[worst], rms(reference[worst]))
    task = core.task.measure(reference, outputs) if core.task else None
    found = Parity(True, errors[worst], limits[worst], sqnr, task)
    if variant.lossy:
        reason = _lossy(found, core)
    else:
        reason = _exact(found, core.outputs[worst]) or _blind(limits, reference, core)
    return Parity(not reason, found.error, found.limit, sqnr, task, reason)


def sqnr_db(error: float, signal: float) -> float:
    """Signal-to-quantisation-noise ratio, 20·log10(RMS of the signal / RMS of the error), in dB."""
    return math.inf if error == 0.0 else 20.0 * math.log10(signal / error) if signal else -math.inf


def agrees_with_itself(first: Outputs, second: Outputs, reference: Outputs, tolerance: Tolerance) -> str:
    """Empty when two runs of eager on the same inputs agree to the floor, and to a tenth of their error beside the
    reference; else why parity would mean nothing."""
    for index, (one, two, ref) in enumerate(zip(first, second, reference, strict=True)):
        moved, allowed = rmse(one, two), tolerance.floor * rms(one) + STEADY * rmse(one, ref)
        if not moved <= allowed:
            return (
                f"eager does not agree with itself: output {index} moved by RMSE {moved:.2e} between two calls, "
                f"of which {allowed:.2e} is allowed"
            )
    return ""


def _form(outputs: Outputs, eager: Outputs, names: tuple[str, ...]) -> str:
    if len(outputs) != len(names) or len(eager) != len(names):
        return f"{len(outputs)} outputs where the core declares {len(names)}: {', '.join(names)}"
    for name, got, own in zip(names, outputs, eager, strict=True):
        if got.shape != own.shape or got.dtype != own.dtype:
            return f"{name}: {got.dtype} {tuple(got.shape)} where eager gives {own.dtype} {tuple(own.shape)}"
        if got.is_floating_point() and not torch.isfinite(got).all():
            return f"{name}: {int((~torch.isfinite(got)).sum())} of {got.numel()} elements are not finite"
    return ""


def _exact(found: Parity, name: str) -> str:
    return "" if found.error <= found.limit else f"{name}: RMSE {found.error:.2e} over the limit {found.limit:.2e}"


def _blind(limits: Sequence[float], reference: Outputs, core: Core) -> str:
    """Why parity would mean nothing, where a limit is no small part of the signal. Integers that another output is
    rounded to need not tell: that one does."""
    floats = any(ref.is_floating_point() for ref in reference)
    for name, limit, ref in zip(core.outputs, limits, reference, strict=True):
        signal = 0.0 if floats and not ref.is_floating_point() else rms(ref)
        if signal and limit > TELLING * signal:
            return (
                f"{name}: a limit of {limit:.2e} lets anything pass beside an RMS of {signal:.2e}, eager itself "
                "being so far off: give the core calmer weights, or leave the dtype out (Core.unsupported)"
            )
    return ""


def _lossy(found: Parity, core: Core) -> str:
    if found.sqnr_db < core.tolerance.sqnr_db:
        return f"SQNR {found.sqnr_db:.1f} dB below the floor {core.tolerance.sqnr_db:.1f} dB"
    if core.task and found.task is not None and not found.task >= core.task.at_least:
        return f"{core.task.name} {found.task:.3f} below {core.task.at_least:.3f}"
    return ""
