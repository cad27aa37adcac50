"""What a run says of itself beside its rows, `machine_info["coregate"]`: read once, and of the right types from there
on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perf.errors import CoregateError
from perf.store.kinds import is_number, is_text, maps_to
from perf.store.rows import FIELD


def machine_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a run in pytest-benchmark's JSON; none where coregate did not write it. Older runs have fewer.

    Raises:
        CoregateError: a field is of another type than it is written in.
    """
    found = document["machine_info"].get(FIELD, {})
    if not isinstance(found, dict):
        raise CoregateError(f"machine_info[{FIELD!r}] is {_short(found)}, not an object")
    for name, (is_right, wanted) in FIELDS.items():
        if name in found and not is_right(found[name]):
            raise CoregateError(f"machine_info[{FIELD!r}][{name!r}] is {_short(found[name])}, not {wanted}")
    return found


def _is_folder_name(value: object) -> bool:
    """Of one that is seen: a hidden one is no machine class's."""
    if not isinstance(value, str) or not value.isprintable():
        return False
    return Path(value).name == value != "" and not value.startswith(".")


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


_TEXT = (is_text, "text")
_TEXTS = (_are_texts, "a list of texts")
_NAMED_TEXTS = (maps_to(is_text), "texts by name")
_NAMED_POSITIVE = (maps_to(_is_positive), "positive numbers by name")
FIELDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "class": (_is_folder_name, "a folder's name"),
    "command": _TEXT,
    "commit": _TEXT,
    "hardware": _NAMED_TEXTS,
    "software": _NAMED_TEXTS,
    "controls": _NAMED_POSITIVE,
    "ceilings": _NAMED_POSITIVE,
    "wrong": _TEXTS,
    "contaminated": _TEXTS,
}
"""By field: whether a value is what it should be, and what that is in words."""
