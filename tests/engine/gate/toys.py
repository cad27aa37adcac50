"""Baselines of a project of the tests' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Project


def baseline_files(project: Project) -> list[Path]:
    return sorted((project.path / "perf" / "baselines").glob("*/*.json"))


def record(project: Project) -> Path:
    assert project.time("--benchmark-save=first").ret == 0
    (path,) = baseline_files(project)
    return path


def edit(path: Path, latency_s: float | None = None, **changes: str) -> None:
    """Rewrite a baseline: another latency, another machine class folder."""
    document = json.loads(path.read_text())
    for entry in document["benchmarks"]:
        if latency_s is not None:
            entry["stats"]["median"] = latency_s
        entry["fullname"] = changes.get("key", entry["fullname"])
    path.write_text(json.dumps(document))
