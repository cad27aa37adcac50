"""The page and its pictures, from what is recorded in a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perf.errors import CoregateError
from perf.store.files import write_atomically
from perf.study import plots
from perf.study.ab import records as restarts
from perf.study.ab.analysis import prove
from perf.study.ab.report import section
from perf.study.analysis import TooFewError, study
from perf.study.records import SUFFIX, read
from perf.study.report import page


def publish(folder: Path, recording: bool, tell: Callable[[str], None]) -> int:
    """Compute and write; the exit status. Who has just recorded a first few runs did nothing wrong.

    Raises:
        CoregateError: nothing is recorded, or too little, or a file is damaged.
    """
    compared = sorted(folder.glob(f"*{restarts.SUFFIX}"))
    paths = sorted(set(folder.glob(f"*{SUFFIX}")) - set(compared))
    if not paths and not compared:
        raise CoregateError(f"{folder} holds no recorded runs: record some with --record N or --record-ab N")
    try:
        studies = [study(read(path)) for path in paths]
        proofs = [prove(restarts.read(path)) for path in compared]
    except TooFewError as few:
        if not recording:
            raise
        tell(f"no report yet: {few}")
        return 0
    absent = plots.missing()
    pictures = {} if absent else {found.machine_class: plots.draw(found, folder) for found in studies}
    text = page(studies, pictures, {found.machine_class: section(found) for found in proofs})
    write_atomically(folder / "README.md", text)
    for line in filter(None, [absent, f"written to {folder / 'README.md'}"]):
        tell(line)
    return 0
