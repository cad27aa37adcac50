"""Of which type a value is that was read from JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def is_number(value: object) -> bool:
    """A finite one; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_text(value: object) -> bool:
    return isinstance(value, str)


def maps_to(is_right: Callable[[Any], bool]) -> Callable[[object], bool]:
    """Whether a value is an object all of whose values are right."""
    return lambda value: isinstance(value, dict) and all(map(is_right, value.values()))
