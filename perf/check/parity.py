"""Parity: one rule for all variants.

With e(x) = RMSE(x, reference), per output: a variant passes when e(variant) ≤ k · e(eager at its own dtype) +
floor, with floor in units of the reference's RMS. For integer outputs e is the share of elements that differ. Every
element is finite,
shape and dtype are eager's. Quantised (`lossy`) variants meet the core's SQNR floor and its task measure instead.
The reference is the core in float64 where it fits (the approach of PyTorch's own dynamo benchmarks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from perf.contract import Core, Outputs, Tolerance, Variant

SIXTEEN_BIT = frozenset({"float16", "bfloat16"})


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
    reason = _lossy(found, core) if variant.lossy else _exact(found, core.outputs[worst])
    return Parity(not reason, found.error, found.limit, sqnr, task, reason)


def sqnr_db(error: float, signal: float) -> float:
    """Signal-to-quantisation-noise ratio, 20·log10(RMS of the signal / RMS of the error), in dB."""
    return math.inf if error == 0.0 else 20.0 * math.log10(signal / error) if signal else -math.inf


def agrees_with_itself(first: Outputs, second: Outputs, tolerance: Tolerance) -> str:
    """Empty when two runs of eager on the same inputs agree to the floor; else why parity would mean nothing."""
    for index, (one, two) in enumerate(zip(first, second, strict=True)):
        if not rmse(one, two) <= tolerance.floor * rms(one):
            return (
                f"eager does not agree with itself: output {index} moved by RMSE {rmse(one, two):.2e} between two calls"
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


def _lossy(found: Parity, core: Core) -> str:
    if found.sqnr_db < core.tolerance.sqnr_db:
        return f"SQNR {found.sqnr_db:.1f} dB below the floor {core.tolerance.sqnr_db:.1f} dB"
    if core.task and found.task is not None and not found.task >= core.task.at_least:
        return f"{core.task.name} {found.task:.3f} below {core.task.at_least:.3f}"
    return ""
