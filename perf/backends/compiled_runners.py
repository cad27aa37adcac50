"""How a compiled module runs: compiled at its first call, and checked to have been; what its inputs are to Dynamo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch._dynamo
from torch._dynamo.utils import counters
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from perf.backends.torch_compile import Compile
from perf.backends.torch_export import why_not
from perf.contract import Axis, Blueprint, Inputs
from perf.errors import UnsupportedError
from perf.runners import ModuleRunner


class CompiledRunner(ModuleRunner):
    """Leaves Dynamo clean on close: its caches hang on code objects and would reach into the next variant.

    Raises:
        UnsupportedError: on the first call of a pure core, where nothing was compiled after all.
    """

    def __init__(self, blueprint: Blueprint, dtype: str, compiled: Compile, options: Mapping[str, Any]) -> None:
        torch._dynamo.reset()
        whole = {"fullgraph": not blueprint.core.impure, **options}
        super().__init__(compiled(blueprint.module(dtype), whole), dtype, blueprint.device)
        self._to_compile = not (blueprint.core.impure or options.get("disable"))

    def run(self, prepared: dict[str, Any]) -> Any:
        if not self._to_compile:
            return super().run(prepared)
        before = counters["stats"]["unique_graphs"]
        raw = super().run(prepared)
        if counters["stats"]["unique_graphs"] == before:
            raise UnsupportedError(
                "torch.compile compiled nothing of this core: is it disabled here (TORCHDYNAMO_DISABLE), or are its "
                "blocks never called themselves?"
            )
        self._to_compile = False
        return raw

    def close(self) -> None:
        super().close()
        torch._dynamo.reset()


class MarkedRunner(CompiledRunner):
    """The axes that the core calls dynamic are marked so on every prepared input; Dynamo may not specialise them."""

    def __init__(self, blueprint: Blueprint, dtype: str, compiled: Compile, options: Mapping[str, Any]) -> None:
        super().__init__(blueprint, dtype, compiled, options)
        self._axes: Mapping[str, Mapping[int, Axis]] = blueprint.core.dynamic
        if not self._axes:
            raise UnsupportedError("the core declares no dynamic axis to mark")

    def prepare(self, inputs: Inputs) -> dict[str, Any]:
        prepared = super().prepare(inputs)
        for name, axes in self._axes.items():
            for dim, axis in axes.items():
                torch._dynamo.mark_dynamic(prepared[name], dim, min=axis.min, max=axis.max)
        return prepared

    def run(self, prepared: dict[str, Any]) -> Any:
        """Raises UnsupportedError where Dynamo would have to fix a marked axis after all."""
        try:
            return super().run(prepared)
        except ConstraintViolationError as error:
            raise UnsupportedError(f"torch.compile: {why_not(error)}") from error


class StaticRunner(CompiledRunner):
    """Prepared inputs stay where they are, so that CUDA graphs read them there: others are copied for every call.

    What is compiled for them is kept apart: in torch 2.11 the caches do not tell it from what copies, so that whichever
    variant came first would run under both names (2.14 tells them apart).
    """

    def __init__(self, blueprint: Blueprint, dtype: str, compiled: Compile, options: Mapping[str, Any]) -> None:
        super().__init__(blueprint, dtype, compiled, options)
        self._called: dict[int, dict[str, Any]] = {}

    def prepare(self, inputs: Inputs) -> dict[str, Any]:
        prepared = super().prepare(inputs)
        for value in prepared.values():
            if isinstance(value, torch.Tensor):  # without a guard: at another address a graph is recorded anew
                torch._dynamo.mark_static_address(value, guard=False)
        return prepared

    def run(self, prepared: dict[str, Any]) -> Any:
        if id(prepared) in self._called:  # nothing compiles any more, and the tag would cost time
            return super().run(prepared)
        self._called[id(prepared)] = prepared  # kept: another's id is not it
        with torch.compiler.config.patch(cache_key_tag="static_inputs"):  # type: ignore[attr-defined]
            return super().run(prepared)

    def close(self) -> None:
        self._called.clear()
        super().close()
