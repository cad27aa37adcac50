"""Data flows one way: the rooms import only what stands before them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ALLOWED = {
    "perf/backends/": {"backends", "children", "contract", "errors", "modules", "runners"},
    "perf/contract.py": set(),
    "perf/outcome.py": set(),
    "perf/errors.py": set(),
    "perf/failures.py": set(),
    "perf/disturbance.py": set(),
    "perf/modules.py": {"contract"},
    "perf/needs.py": set(),
    "perf/precision.py": set(),
    "perf/runners.py": {"contract", "precision"},
    "perf/covering.py": {"contract"},
    "perf/names.py": {"contract", "errors"},
    "perf/budgets.py": {"errors", "judge"},
    "perf/catalogue.py": {"contract", "covering", "errors", "names"},
    "perf/subjects.py": {"catalogue", "contract"},
    "perf/quiet.py": set(),
    "perf/options.py": {"catalogue", "contract", "covering", "errors"},
    "perf/children.py": set(),
    "perf/confirm.py": {"children", "errors", "outcome", "store"},
    "perf/weights.py": {"catalogue", "contract", "errors"},
    "perf/variants/": {"backends", "contract", "errors", "needs", "precision", "runners"},
    "perf/check/": {"backends", "check", "contract", "runners"},
    "perf/measure/": {"children", "contract", "disturbance", "measure", "precision"},
    "perf/store/": {"contract", "disturbance", "errors", "outcome", "store"},
    "perf/judge/": {"contract", "disturbance", "judge", "outcome"},
    "perf/report/": {"check", "contract", "fresh", "outcome", "report", "store"},
    "perf/study/": {
        *("ab", "catalogue", "children", "contract", "covering", "disturbance", "errors", "judge", "measure"),
        *("options", "outcome", "report", "session", "store", "study", "workbench"),
    },
    "perf/workbench.py": {"catalogue", "check", "contract", "failures", "measure", "modules", "precision", "runners"},
    "perf/ab/": {
        *("ab", "contract", "covering", "errors", "measure", "options", "outcome", "plugin", "report", "session"),
    },
    "perf/claims/": {"catalogue", "claims", "contract", "errors", "outcome", "report", "store"},
    "perf/reporting.py": {"claims", "errors"},
    "fixtures/": {"claims", "contract", "errors"},
}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_of(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports_of(path) if name.startswith("perf.")}


def files_under(place: str) -> list[Path]:
    return sorted((ROOT / place).rglob("*.py")) if place.endswith("/") else [ROOT / place]


@pytest.mark.parametrize("place", ALLOWED)
def test_a_room_imports_only_what_stands_before_it(place: str) -> None:
    assert files_under(place)
    beyond = {str(path): rooms_of(path) - ALLOWED[place] for path in files_under(place)}
    assert not {path: rooms for path, rooms in beyond.items() if rooms}


def test_perf_knows_no_core_by_name() -> None:
    offenders = [path for path in files_under("perf/") if any(n.split(".")[0] == "fixtures" for n in imports_of(path))]
    assert not offenders


def test_fixtures_know_no_pytest_and_no_clock() -> None:
    barred = {"pytest", "time", "timeit"}
    offenders = {
        str(path): barred & {name.split(".")[0] for name in imports_of(path)} for path in files_under("fixtures/")
    }
    assert not {path: names for path, names in offenders.items() if names}
