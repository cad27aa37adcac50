"""`make test` runs in parts: each of the engine's tests in one of them, and in no other."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
ENGINE = "tests/engine"


def parts() -> list[list[str]]:
    """pytest's arguments in each part, as make would run them; whatever the make says that runs this test."""
    command = ["make", "--dry-run", "--old-file=env", "test", "BIN=.", "CI=", "TESTS="]
    outside = {**os.environ, "MAKEFLAGS": ""}
    said = subprocess.run(command, cwd=ROOT, env=outside, check=True, capture_output=True, text=True).stdout
    return [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("./python -m pytest")]


def chooses(part: list[str], path: Path) -> bool:
    ignored = [argument.removeprefix("--ignore=") for argument in part if argument.startswith("--ignore=")]
    return any(path.is_relative_to(place) for place in part) and not any(path.is_relative_to(left) for left in ignored)


def test_each_test_of_the_engine_is_in_one_part() -> None:
    files = [path.relative_to(ROOT) for path in (ROOT / ENGINE).rglob("test_*.py")]
    assert Path(ENGINE, "project", "test_parts.py") in files
    asked = parts()
    found = {path: sum(chooses(part, path) for part in asked) for path in files}
    assert not {path: times for path, times in found.items() if times != 1}
