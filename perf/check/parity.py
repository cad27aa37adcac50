"""Parity: one rule for all variants.

With e(x) = RMSE(x, reference), per output: a variant passes when e(variant) ≤ k · e(eager at its own dtype) +
floor, with floor in units of the reference's RMS. For integer outputs e is the share of elements that differ. Every
element is finite,
shape and dtype are eager's. Quantised (`lossy`) variants meet the core's SQNR floor and its task measure instead.
The reference is the core in float64 where it fits (the approach of PyTorch's own dynamo benchmarks).

A measure that tells nothing is refused: an eager core that does not repeat itself, and one whose error at the dtype is
so large that the limit would let anything pass (a constant is off by what the reference varies by).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from perf.contract import Core, Outputs, Tolerance, Variant

SIXTEEN_BIT = frozenset({"float16", "bfloat16"})
STEADY = 0.1
"""Share of eager's own error by which two of its calls may differ: on a GPU sums may be ordered otherwise each time."""
TELLING = 0.5
"""The largest limit, as a share of what the reference varies by, that still tells a wrong result from a right one."""


@dataclass(frozen=True)
class Parity:
    """`ok`, or the `reason` it is not. `error` and `limit` belong to the output that is nearest its limit, of a lossy
    variant to the noisiest. `departed` is whether a layer can be looked for that differs from what it should be.
    """

    ok: bool
    error: float
    limit: float
    sqnr_db: float
    task: float | None = None
    reason: str = ""
    departed: bool = True


def rmse(outputs: torch.Tensor, reference: torch.Tensor) -> float:
    """Root of the mean squared difference, in float64; of integers and booleans, the share that differs. Nothing, where
    there are no elements."""
    if not reference.numel():
        return 0.0
    if not reference.is_floating_point():
        return (outputs != reference).double().mean().item()
    return (outputs.double() - reference.double()).square().mean().sqrt().item()


def rms(tensor: torch.Tensor) -> float:
    """Root mean square, in float64; 1 for integers, whose error is a share."""
    if not tensor.is_floating_point():
        return 1.0
    return tensor.double().square().mean().sqrt().item() if tensor.numel() else 0.0


def spread(tensor: torch.Tensor) -> float:
    """How far elements lie from their mean (a constant is off by that), as RMS; where all are equal, the RMS itself."""
    if not tensor.is_floating_point() or not tensor.numel():
        return rms(tensor)
    return tensor.double().std(correction=0).item() or rms(tensor)


def judge(outputs: Outputs, eager: Outputs, reference: Outputs, core: Core, variant: Variant) -> Parity:
    """`eager` is the core at the variant's dtype, uncompiled; all three on the CPU, one tensor per `core.outputs`."""
    reason = _form(outputs, eager, core.outputs) or _unfit(reference, core.outputs)
    if reason:
        return Parity(False, math.nan, math.nan, math.nan, reason=reason)
    k = core.tolerance.k16 if variant.dtype in SIXTEEN_BIT else core.tolerance.k
    errors = [rmse(got, ref) for got, ref in zip(outputs, reference, strict=True)]
    limits = [_limit(k, own, ref, core) for own, ref in zip(eager, reference, strict=True)]
    task = core.task.measure(reference, outputs) if core.task else None
    if variant.lossy:
        return _lossy(errors, limits, reference, core, task)
    worst = max(range(len(errors)), key=lambda i: errors[i] / limits[i] if limits[i] else errors[i] * math.inf)
    sqnr = sqnr_db(errors[worst], rms(reference[worst]))
    found = Parity(True, errors[worst], limits[worst], sqnr, task)
    if not found.error <= found.limit:
        reason = f"{core.outputs[worst]}: RMSE {found.error:.2e} over the limit {found.limit:.2e}"
        return replace(found, ok=False, reason=reason)
    reason = _blind(limits, reference, core)
    return replace(found, ok=not reason, reason=reason, departed=False)


def _limit(k: float, eager: torch.Tensor, reference: torch.Tensor, core: Core) -> float:
    """Of integers no more than half way from the share in which eager differs to all of them."""
    own = rmse(eager, reference)
    limit = k * own + core.tolerance.floor * rms(reference)
    return limit if reference.is_floating_point() else min(limit, (1 + own) / 2)


def sqnr_db(error: float, signal: float) -> float:
    """Signal-to-quantisation-noise ratio, 20·log10(RMS of the signal / RMS of the error), in dB."""
    return math.inf if error == 0.0 else 20.0 * math.log10(signal / error) if signal else -math.inf


def agrees_with_itself(first: Outputs, second: Outputs, reference: Outputs, tolerance: Tolerance) -> str:
    """Empty when two runs of eager on the same inputs agree to the floor, and to a tenth of their error beside the
    reference; else why parity would mean nothing."""
    for index, (one, two, ref) in enumerate(zip(first, second, reference, strict=True)):
        if not _finite(one):
            return f"eager itself gives elements that are not finite, in output {index}"
        moved, allowed = rmse(one, two), tolerance.floor * rms(one) + STEADY * rmse(one, ref)
        if not moved <= allowed:
            return (
                f"eager does not agree with itself: output {index} moved by RMSE {moved:.2e} between two calls, "
                f"of which {allowed:.2e} is allowed"
            )
    return ""


def _finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def _unfit(reference: Outputs, names: tuple[str, ...]) -> str:
    bad = [name for name, ref in zip(names, reference, strict=True) if not _finite(ref)]
    return f"{bad[0]}: the reference has elements that are not finite" if bad else ""


def _form(outputs: Outputs, eager: Outputs, names: tuple[str, ...]) -> str:
    if len(outputs) != len(names) or len(eager) != len(names):
        return f"{len(outputs)} outputs where the core declares {len(names)}: {', '.join(names)}"
    for name, got, own in zip(names, outputs, eager, strict=True):
        if got.shape != own.shape or got.dtype != own.dtype:
            return f"{name}: {got.dtype} {tuple(got.shape)} where eager gives {own.dtype} {tuple(own.shape)}"
        if got.is_floating_point() and not torch.isfinite(got).all():
            return f"{name}: {int((~torch.isfinite(got)).sum())} of {got.numel()} elements are not finite"
    return ""


def _blind(limits: Sequence[float], reference: Outputs, core: Core) -> str:
    """Why parity would mean nothing, where a limit is no small part of the signal. Integers beside floating outputs
    need not tell as much: they are what those are rounded to."""
    floats = any(ref.is_floating_point() for ref in reference)
    for name, limit, ref in zip(core.outputs, limits, reference, strict=True):
        if (ref.is_floating_point() or not floats) and limit > TELLING * spread(ref):
            return (
                f"{name}: a limit of {limit:.2e} lets anything pass beside values that vary by {spread(ref):.2e}: "
                "eager itself is so far off; give the core calmer weights, or leave the dtype out (Core.unsupported)"
            )
    return ""


def _lossy(
    errors: Sequence[float], limits: Sequence[float], reference: Outputs, core: Core, task: float | None
) -> Parity:
    """By the noisiest output, of the floating ones where there are some: integers are what those are rounded to."""
    floating = [i for i, ref in enumerate(reference) if ref.is_floating_point()] or range(len(reference))
    ratios = {i: sqnr_db(errors[i], rms(reference[i])) for i in floating}
    worst = min(ratios, key=lambda i: ratios[i])
    found = Parity(True, errors[worst], limits[worst], ratios[worst], task)
    if not found.sqnr_db >= core.tolerance.sqnr_db:
        name = f"{core.outputs[worst]}: " if len(reference) > 1 else ""
        reason = f"{name}SQNR {found.sqnr_db:.1f} dB below the floor {core.tolerance.sqnr_db:.1f} dB"
        return replace(found, ok=False, reason=reason)
    if core.task and task is not None and not task >= core.task.at_least:
        return replace(found, ok=False, reason=f"{core.task.name} {task:.3f} below {core.task.at_least:.3f}")
    return found
