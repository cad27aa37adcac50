"""What one call must do at the least, counted on one: FLOPs by torch's own counter, what must be read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from perf.contract import Cost


class ReadingMode(TorchDispatchMode):
    """Which parameters the operators under it read: whole, or, of a table that is only looked up, a row a look-up."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._parameters = {_storage(parameter): parameter.numel() for parameter in parameters}
        self._whole: set[int] = set()
        self._rows: dict[int, int] = {}

    @property
    def values(self) -> int:
        """Each parameter once, however often it was read; of a table no more than it has."""
        rows = {place: n for place, n in self._rows.items() if place not in self._whole}
        looked_up = sum(min(n, self._parameters[place]) for place, n in rows.items())
        return looked_up + sum(self._parameters[place] for place in self._whole)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        read = {_storage(value) for value in _tensors((args, kwargs))} & self._parameters.keys()
        if func is torch.ops.aten.embedding.default:
            for place in read:
                self._rows[place] = self._rows.get(place, 0) + found.numel()
        else:
            self._whole |= read
        return found


def count(module: nn.Module, inputs: Mapping[str, Any]) -> Cost:
    """Of one call of `module`, which may lie on the `meta` device: nothing is computed there, and the count is the
    same. Raises whatever the module does there: what reads a tensor's value has none to read.
    """
    reading, flops = ReadingMode(module.parameters()), FlopCounterMode(display=False)
    with torch.no_grad(), flops, reading:
        outputs = module(**inputs)
    moved = [*_tensors(inputs), *_tensors(outputs)]
    return Cost(
        flops=float(flops.get_total_flops()),
        weights=float(reading.values),
        values=float(sum(value.numel() for value in moved if value.is_floating_point())),
        integer_bytes=float(sum(value.nbytes for value in moved if not value.is_floating_point())),
    )


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _storage(value: Tensor) -> int:
    """Views of a tensor share it, and so do tied parameters; on the meta device too."""
    return int(value.untyped_storage()._cdata)
