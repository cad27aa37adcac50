"""Accepted counters: one file for all machines, since what is counted exactly needs no machine of its own.

`counters.json` beside the machine classes' folders: software versions, and per key the counters and the places behind
them (breaks, recompiles), so that a change is shown by its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perf.errors import CoregateError
from perf.store.files import write_atomically

SCHEMA = 1


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
        found = {key: Counted(item["counters"], tuple(item["places"])) for key, item in document["counted"].items()}
        accepted = Accepted(dict(document["software"]), found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CoregateError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore it from git, or delete it and accept again"
        ) from None
    if schema > SCHEMA:
        raise CoregateError(f"{path} has schema {schema}, this coregate reads {SCHEMA}: upgrade coregate")
    return accepted


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
