"""Accepted counters: one file for all machines, since what is counted exactly needs no machine of its own.

`counters.json` beside the machine classes' folders: software versions, and per key the counters and the places behind
them (breaks, recompiles), so that a change is shown by its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf.errors import CoregateError
from perf.store.baselines import DAMAGE
from perf.store.files import write_atomically
from perf.store.kinds import is_text, maps_to

SCHEMA = 1
KEYS = (4, 5)
"""Parts of a graph subject's key, and of a case's."""


@dataclass(frozen=True)
class Counted:
    """Counters of one key, and the lines that say where they come from."""

    counters: Mapping[str, int]
    places: Sequence[str] = ()


@dataclass(frozen=True)
class Accepted:
    """What was accepted, under which software."""

    software: Mapping[str, str] = field(default_factory=dict)
    counted: Mapping[str, Counted] = field(default_factory=dict)


def read(path: Path) -> Accepted:
    """What is in the file; nothing where there is none.

    Raises:
        CoregateError: it is damaged or of a newer schema.
    """
    if not path.exists():
        return Accepted()
    try:
        document = json.loads(path.read_text(encoding="utf8"))
        schema = int(document["schema"])
        if schema > SCHEMA:
            raise CoregateError(f"{path} has schema {schema}, this coregate reads {SCHEMA}: upgrade coregate")
        found = {key: _counted(key, item) for key, item in document["counted"].items()}
        if not maps_to(is_text)(document["software"]):
            raise ValueError(f"software is {document['software']!r}, not texts by name")
    except DAMAGE as error:
        raise CoregateError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore it from git, or delete it and accept again"
        ) from None
    return Accepted(document["software"], found)


def _counted(key: str, item: Mapping[str, Any]) -> Counted:
    """Raises:
    ValueError: the key is neither a case's nor a graph subject's, or a value is of another type than it is written in.
    """
    if len(key.split("/")) not in KEYS:
        raise ValueError(f"{key!r} is neither core/preset/variant/shape/device nor core/preset/device/dynamic=…")
    counters, places = item["counters"], item["places"]
    if not maps_to(_is_count)(counters):
        raise ValueError(f"{key}: counters are {counters!r}, not whole numbers of 0 or more by name")
    if not (isinstance(places, list) and all(map(is_text, places))):
        raise ValueError(f"{key}: places are {places!r}, not a list of texts")
    return Counted(counters, tuple(places))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def write(path: Path, accepted: Accepted) -> None:
    """Sorted, a key a line, so that a review shows what moved.

    Raises:
        CoregateError: it cannot be written.
    """
    lines = [f"  {json.dumps(key)}: {_one_line(item)}" for key, item in sorted(accepted.counted.items())]
    software = json.dumps(dict(accepted.software), sort_keys=True)
    head = f'{{\n "schema": {SCHEMA},\n "software": {software},\n "counted": {{\n'
    write_atomically(path, head + ",\n".join(lines) + "\n }\n}\n")


def _one_line(item: Counted) -> str:
    return json.dumps({"counters": dict(item.counters), "places": list(item.places)}, sort_keys=True)
