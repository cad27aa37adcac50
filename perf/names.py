"""What cores, presets, shapes and variants may be called: their names are the parts of a case's key, stand in patterns
and options, and name files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from perf.contract import WEIGHTS, Core, Variant
from perf.errors import CoregateError

NAME = re.compile(r"\w[\w.+-]*")


def check_names(cores: Iterable[Core], variants: Iterable[Variant]) -> None:
    """Raises:
    CoregateError: a name is none, or a preset has two shapes of one name.
    """
    given = [*(named for core in cores for named in _names_of(core)), *(("variant", one.name) for one in variants)]
    for what, name in given:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            allowed = "letters, digits and _, and behind the first of them . + - as well"
            raise CoregateError(f"{what} {name!r}: a name is {allowed}, for it is a part of its cases' keys")
    twice = [f"{what} {name!r}" for (what, name), count in Counter(given).items() if count > 1]
    if twice:
        raise CoregateError(f"{twice[0]} is there twice: a case is kept under its names, so rename one")


def _names_of(core: Core) -> Iterator[tuple[str, str]]:
    """With what each is the name of."""
    yield "core", core.name
    for name, preset in core.presets.items():
        yield f"core {core.name}: preset", name
        for shape in preset.shapes:
            if shape.name == WEIGHTS:
                raise CoregateError(
                    f"core {core.name}: shape {WEIGHTS!r} is what reading weights is kept under: rename it"
                )
            yield f"core {core.name}, preset {name}: shape", shape.name
