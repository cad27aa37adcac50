"""How a core is quantised, as data, and which processors compute it right; needs neither onnx nor torchao."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

CALIBRATION_SEEDS = range(2**32 - 32, 2**32)
"""Never a test's: a run's seed is below 2**31. And not beyond 2**32: torch's generator keeps a seed's lower 32 bits, so
that 2**32 draws what 0 does. Negative seeds are refused by numpy's."""

FEWEST_LAYERS = 5
"""With fewer, leaving two in float would leave no more than half quantised."""

_INT8_X86 = ("avx_vnni", "avx512_vnni", "amx_int8")
_INT8_ARM = ("dot", "i8mm")


@dataclass(frozen=True)
class Recipe:
    """ONNX Runtime's quantisation settings, by the names of its own enumerations. `static` takes the ranges of the
    activations from calibration data (`calibrator`), else they are taken at every call. `reduce_range` gives weights
    7 bits.
    """

    static: bool = True
    format: str = "QDQ"
    activation: str = "QUInt8"
    weight: str = "QInt8"
    per_channel: bool = False
    reduce_range: bool = False
    calibrator: str = "MinMax"

    @property
    def may_saturate(self) -> bool:
        """8-bit signed weights, which x86 without VNNI multiplies by unsigned activations into saturating 16 bits."""
        return self.weight == "QInt8" and not self.reduce_range


def sensitive(layers: Sequence[str]) -> tuple[str, ...]:
    """The first and the last of `layers`, which stand in the order in which they run: they see the raw input and make
    the output, and are left in float. None of fewer than `FEWEST_LAYERS`.
    """
    return (layers[0], layers[-1]) if len(layers) >= FEWEST_LAYERS else ()


def int8_instructions(capabilities: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that sum products of 8-bit integers in 32 bits. `capabilities` as `torch.cpu.get_capabilities()` gives."""
    return tuple(name for name in (*_INT8_X86, *_INT8_ARM) if capabilities.get(name))


def saturates(capabilities: Mapping[str, Any]) -> bool:
    """Whether U8×S8 products saturate here: on x86 without VNNI, which has only `vpmaddubsw` for them."""
    return str(capabilities.get("architecture", "")).startswith("x86") and not int8_instructions(capabilities)


def describe_int8(capabilities: Mapping[str, Any]) -> str:
    """For the notes of a row: without these, its error and its latency cannot be compared."""
    found = ", ".join(int8_instructions(capabilities)) or "none"
    return f"{found}: U8×S8 saturates" if saturates(capabilities) else found


def no_saturation(device: str) -> str | None:
    """A need, as in `perf.needs`."""
    if not saturates(torch.cpu.get_capabilities()):
        return None
    return "this CPU has no VNNI, so that U8×S8 products saturate: run a -reduce_range or -u8u8 variant"
