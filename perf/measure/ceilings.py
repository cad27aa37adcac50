"""What the machine reaches on plain work, a matrix product in each dtype and a copy: the roof over all cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter

import torch
from torch import Tensor

from perf.measure.controls import CONTROLS, SIZES, ControlSizes, Work
from perf.measure.device import release, synchronise
from perf.measure.latency import Clock, quiet_collector
from perf.measure.limit import COPY, TF32
from perf.precision import tf32

INT8, FLOAT8 = "int8", "float8_e4m3fn"
PRODUCTS = {
    "cpu": ("float32", "bfloat16", "float16"),
    "cuda": ("float32", TF32, "bfloat16", "float16", INT8, FLOAT8),
}
"""On a CPU torch has no quick product of integers: ONNX Runtime's own kernels are the ones that count there."""

LEAST_CALLS = 3
SMALLER = 4


def measure_ceilings(
    device: str, sizes: ControlSizes | None = None, clock: Clock = perf_counter, max_s: float = 0.15
) -> Mapping[str, float]:
    """Operations a second of a product by dtype, and under `copy` bytes a second, read and written; each from the
    fastest of the calls that fit into `max_s`. A dtype that the device does not multiply is absent.
    """
    chosen = sizes or SIZES[device]
    with torch.inference_mode(), quiet_collector():
        rates = {name: _rate(name, device, chosen, clock, max_s) for name in PRODUCTS[device]}
        found = {name: rate for name, rate in rates.items() if rate}
        found[COPY] = 2.0 * chosen.copy_bytes / fastest_s(CONTROLS["copy"](device, chosen), device, clock, max_s)
    release(device)
    return found


def _rate(name: str, device: str, sizes: ControlSizes, clock: Clock, max_s: float) -> float | None:
    """Operations a second. Of a quarter of the side, where a product of the whole would take longer than `max_s`: on a
    processor without float16, 1024³ takes 2 s.
    """
    small = replace(sizes, matmul=max(1, sizes.matmul // SMALLER))
    seconds = _product_s(name, device, small, clock, 0.0)
    if seconds is None:
        return None
    if seconds * SMALLER**3 > max_s:
        return 2.0 * small.matmul**3 / seconds
    whole = _product_s(name, device, sizes, clock, max_s)
    return 2.0 * sizes.matmul**3 / whole if whole else None


def fastest_s(work: Work, device: str, clock: Clock, max_s: float) -> float:
    """Of calls after a first that is not counted: what others do to the machine only ever adds."""
    calls: list[float] = []
    begun = clock()
    while len(calls) <= LEAST_CALLS or clock() - begun < max_s:
        start = clock()
        work()
        synchronise(device)
        calls.append(clock() - start)
    return min(calls[1:])


def _product_s(name: str, device: str, sizes: ControlSizes, clock: Clock, max_s: float) -> float | None:
    """None where torch has no such product on this device."""
    try:
        with tf32(name == TF32):
            return fastest_s(_product(name, device, sizes), device, clock, max_s)
    except (RuntimeError, NotImplementedError):
        return None


def _product(name: str, device: str, sizes: ControlSizes) -> Work:
    if name in OF_8_BITS:
        return OF_8_BITS[name](device, sizes.matmul)
    dtype = torch.float32 if name == TF32 else getattr(torch, name)
    return CONTROLS["matmul"](device, replace(sizes, dtype=dtype))


def _integers(device: str, side: int) -> Callable[[], object]:
    left, right = torch.randint(-128, 128, (2, side, side), device=device).to(torch.int8)
    columns = _by_columns(right)
    return lambda: torch._int_mm(left, columns)


def _floats(device: str, side: int) -> Callable[[], object]:
    """With one scale a matrix, as fast as it gets."""
    left, right = torch.randn(2, side, side, device=device).to(torch.float8_e4m3fn)
    one, columns = torch.ones((), device=device), _by_columns(right)
    return lambda: torch._scaled_mm(left, columns, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def _by_columns(matrix: Tensor) -> Tensor:
    """cuBLAS takes the right side of an 8-bit product so."""
    return matrix.t().contiguous().t()


OF_8_BITS: Mapping[str, Callable[[str, int], Work]] = {INT8: _integers, FLOAT8: _floats}
