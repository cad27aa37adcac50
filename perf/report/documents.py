"""JSON that people read as well: what holds nothing deeper stands on one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def dump(document: Any) -> str:
    """JSON text with a line for each list or object that has none inside, and a newline at the end."""
    return "".join(_parts(document, "")) + "\n"


def _parts(value: Any, margin: str) -> Iterator[str]:
    opening, items, closing = _opened(value)
    if not any(isinstance(item, dict | list | tuple) and item for _, item in items):
        yield json.dumps(value, ensure_ascii=False)
        return
    yield opening
    for at, (name, item) in enumerate(items):
        yield f"{',' if at else ''}\n{margin} {name}"
        yield from _parts(item, f"{margin} ")
    yield f"\n{margin}{closing}"


def _opened(value: Any) -> tuple[str, list[tuple[str, Any]], str]:
    """Its bracket, what it holds with what stands before each, and the other bracket."""
    if isinstance(value, dict):
        return "{", [(f"{json.dumps(str(name), ensure_ascii=False)}: ", item) for name, item in value.items()], "}"
    return "[", [("", item) for item in value] if isinstance(value, list | tuple) else [], "]"
