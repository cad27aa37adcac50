"""Which installed libraries a module's code comes from: what is derived from it is stale once one of them changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions, version

import torch


def library_versions(module: torch.nn.Module) -> list[str]:
    """`name version` of each distribution that has the class of a part of `module`, or one of its base classes."""
    classes = {kind for part in module.modules() for kind in type(part).__mro__}
    roots = {kind.__module__.partition(".")[0] for kind in classes}
    return sorted({f"{name} {version(name)}" for root in roots for name in _distributions().get(root, ())})


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    return packages_distributions()
