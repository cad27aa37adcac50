"""How what a variant leaves on disk is loaded where it is served: without its module and without coregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Loading:
    """Two pieces of Python for a new interpreter: `setting_up` imports and readies the device, `loading` opens the
    file. Both read `arguments` as `sys.argv[1:]`; the first is the file.
    """

    setting_up: str
    loading: str
    arguments: tuple[str, ...]


@runtime_checkable
class Deployed(Protocol):
    """A runner over files that can be loaded on their own. `loadings` maps a metric in seconds to the way; files that
    are made for it go into `folder`."""

    def loadings(self, folder: Path) -> Mapping[str, Loading]: ...
