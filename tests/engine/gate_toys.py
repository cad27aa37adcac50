"""Baselines of a project of the tests' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Project

RECORDED: dict[Path, str] = {}
"""By its path below a project: the toy is the same for all who compare with it, so it is measured once."""


def baseline_files(project: Project) -> list[Path]:
    return sorted((project.path / "perf" / "baselines").glob("*/*.json"))


def record(project: Project) -> Path:
    """A baseline of one run of the toy as it is at first."""
    if not RECORDED:
        assert project.time("--benchmark-save=first").ret == 0
        RECORDED.update({path.relative_to(project.path): path.read_text() for path in baseline_files(project)})
    ((below, text),) = RECORDED.items()
    project.write(str(below), text)
    return project.path / below


def edit(path: Path, latency_s: float | None = None, **changes: str) -> None:
    """Rewrite a baseline: another latency, another machine class folder."""
    document = json.loads(path.read_text())
    for entry in document["benchmarks"]:
        if latency_s is not None:
            entry["stats"]["median"] = latency_s
        entry["fullname"] = changes.get("key", entry["fullname"])
    path.write_text(json.dumps(document))
