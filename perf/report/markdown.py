"""The sections that the terminal shows as one Markdown file: a CI job's summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from perf.store.files import write_atomically

FENCE = "```"


def write_report(path: Path, title: str, sections: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Each section under its heading, its lines as they are: tables there are aligned by blanks.

    Raises:
        CoregateError: `path` cannot be written; what was there is left as it was.
    """
    parts = [f"# {title}"]
    for heading, lines in sections:
        parts += ["", f"## {heading.removeprefix('coregate: ')}", "", FENCE, *lines, FENCE]
    write_atomically(path, "\n".join(parts) + "\n")
