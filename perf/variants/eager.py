"""Plain PyTorch, at each dtype and with each global choice that changes its numbers: what every ratio is against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from perf.contract import Blueprint, Inputs, Variant
from perf.errors import UnsupportedError
from perf.needs import Need, cuda_only, device_present
from perf.precision import tf32
from perf.runners import ModuleRunner

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
NO_KERNEL = ("No available kernel", "No viable backend")
"""How torch says, on CUDA and on a CPU, that the back-end asked for cannot do it."""
SDPA = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


class ChannelsLastRunner(ModuleRunner):
    """Images [batch, channels, height, width] laid out with channels innermost.

    Raises:
        UnsupportedError: no input is 4-D and floating, so that there is nothing to lay out.
    """

    def __init__(self, blueprint: Blueprint, dtype: str) -> None:
        if not any(_is_image(value) for value in blueprint.example(0).values()):
            raise UnsupportedError("channels-last is a layout of 4-D images, and this core takes none")
        module = blueprint.module(dtype).to(memory_format=torch.channels_last)
        super().__init__(module, dtype, blueprint.device)

    def prepare(self, inputs: Inputs) -> dict[str, Any]:
        prepared = super().prepare(inputs)
        return {
            name: value.to(memory_format=torch.channels_last) if _is_image(value) else value
            for name, value in prepared.items()
        }


def _is_image(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_floating_point()


class AttentionRunner(ModuleRunner):
    """`scaled_dot_product_attention` on one back-end.

    Raises:
        UnsupportedError: on the first call, where that back-end has no kernel for this core's attention.
    """

    def __init__(self, blueprint: Blueprint, backend: SDPBackend) -> None:
        self._backend = backend
        super().__init__(blueprint.module("float32"), "float32", blueprint.device)

    def run(self, prepared: dict[str, Any]) -> Any:
        try:
            with sdpa_kernel([self._backend]):
                return super().run(prepared)
        except RuntimeError as error:
            if not str(error).startswith(NO_KERNEL):
                raise
            raise UnsupportedError(f"{self._backend.name} has no kernel for this core's attention here") from None


@contextmanager
def rounded() -> Iterator[None]:
    """TF32 and no gradients."""
    with tf32(allowed=True), torch.no_grad():
        yield


def build(blueprint: Blueprint, dtype: str, around: Callable[[], AbstractContextManager[Any]]) -> ModuleRunner:
    return ModuleRunner(blueprint.module(dtype), dtype, blueprint.device, around)


def variant(
    name: str,
    around: Callable[[], AbstractContextManager[Any]] = torch.no_grad,
    dtype: str = "float32",
    missing: Need = device_present,
    standard_on: tuple[str, ...] = ("cpu", "cuda"),
    lossy: bool = False,
    products: str = "",
) -> Variant:
    options = {"around": name.removeprefix("eager-")}
    made = partial(build, dtype=dtype, around=around)
    return Variant(
        name, made, dtype, missing=missing, standard_on=standard_on, lossy=lossy, options=options, products=products
    )


VARIANTS = [
    *(variant(f"eager-{short}", dtype=dtype) for short, dtype in DTYPES.items()),
    variant("eager-tf32", rounded, missing=cuda_only, standard_on=("cuda",), lossy=True, products="tf32"),
    variant("eager-inference_mode", torch.inference_mode, standard_on=()),
    *(
        Variant(
            f"eager-sdpa_{name}",
            partial(AttentionRunner, backend=backend),
            missing=device_present,
            standard_on=(),
            options={"sdpa": name},
        )
        for name, backend in SDPA.items()
    ),
    *(
        Variant(
            name,
            partial(ChannelsLastRunner, dtype=dtype),
            dtype,
            missing=device_present,
            standard_on=(),
            options={"memory_format": "channels_last"},
        )
        for name, dtype in (("eager-channels_last", "float32"), ("eager-channels_last-bf16", "bfloat16"))
    ),
]
