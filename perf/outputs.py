"""What a run is to write: refused before it measures where it cannot be, told with all else where it fails at the
end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perf.errors import CoregateError, first_line
from perf.options import Options
from perf.store.benchmark_storage import Storage
from perf.store.files import check_writable


def check_outputs(options: Options, plain: Any, storage: Storage) -> None:
    """Find out before hours of measuring, of all that the command line names. `plain` is pytest-benchmark's session.
    xdist's workers leave it to the process that started them: two that try at once are in each other's way.

    Raises:
        CoregateError: a file or a folder cannot be written.
    """
    if hasattr(plain.config, "workerinput"):
        return
    if plain.save or plain.autosave:
        storage.check_writable()
    if options.traces:
        check_writable(options.traces)
    if plain.json:
        _check_opened("--benchmark-json", plain.json)
    for option, path in (
        ("--report", options.report),
        ("--graph-report", options.graph_report),
        ("--placement-report", options.placement_report),
        ("--accept-counters", options.baselines / "counters.json" if options.accept_counters else None),
    ):
        if path:
            _check_replaced(option, path)


def _check_opened(option: str, path: Path) -> None:
    """pytest-benchmark opens its file, which may be a device."""
    if path.is_dir():
        raise CoregateError(f"{option}: {path} is a folder: name a file in it")
    if not path.exists():
        check_writable(path.parent)
    elif not os.access(path, os.W_OK):
        raise CoregateError(f"{option}: {path} cannot be written: change its permissions, or name another file")


def _check_replaced(option: str, path: Path) -> None:
    """Ours are written beside it, and renamed."""
    if path.exists() and not path.is_file():
        what = "a folder: name a file in it" if path.is_dir() else "no file that could be replaced: name another"
        raise CoregateError(f"{option}: {path} is {what}")
    check_writable(path.parent)


def keep_going(plain: Any, problems: list[str]) -> None:
    """pytest-benchmark finishes before coregate does. Where it fails, that joins the `problems`, and neither what it
    would have saved elsewhere nor any verdict is lost."""
    plain.save_json = _told(plain.save_json, f"--benchmark-json={plain.json} was not written", problems)
    plain.finish = _told(plain.finish, "pytest-benchmark did not finish", problems)


def _told(action: Callable[..., object], what: str, problems: list[str]) -> Callable[..., None]:
    def guarded(*arguments: object) -> None:
        try:
            action(*arguments)
        except Exception as error:
            problems.append(f"{what}: {first_line(error)}")

    return guarded
