"""Where each side's code comes from: the working tree as it is, a git revision, or an interpreter of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perf.errors import CoregateError

WORKING_TREE = "."
OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""What git sets for its hooks, from which a comparison may be run: it would aim our git at the hook's checkout."""


@dataclass(frozen=True)
class Origin:
    """`side` is `base` or `head`; `label` is what to call it; `root` is the project's folder as that side has it.
    `replaced` is the repository's folder that a revision's checkout stands in for."""

    side: str
    label: str
    python: Path
    root: Path
    replaced: Path | None = None


@contextmanager
def opened(side: str, asked: str, root: Path, scratch: Path) -> Iterator[Origin]:
    """The origin that `asked` means: `.`, the path of a python executable, or a git revision. A revision is checked out
    below `scratch` for the length of the context, whatever ends it.

    Raises:
        CoregateError: it is none of these, or the revision has no such project.
    """
    if asked == WORKING_TREE:
        yield Origin(side, "the working tree", Path(sys.executable), root)
    elif Path(asked).is_file() and os.access(asked, os.X_OK):
        # Not resolved: a virtual environment's python is a link, and knows its environment by the link's place.
        yield Origin(side, asked, Path(asked).absolute(), root)
    else:
        commit = _commit(side, asked, root)
        inner = _git(root, "rev-parse", "--show-prefix").stdout.strip()
        replaced = Path(_git(root, "rev-parse", "--show-toplevel").stdout.strip())
        with _worktree(root, commit, scratch / f"{side}-tree") as tree:
            if not (tree / inner).is_dir():
                raise CoregateError(
                    f"--{side} {asked}: that revision has no folder {inner}: run from the project's root"
                )
            yield Origin(side, f"{asked} ({commit[:9]})", Path(sys.executable), tree / inner, replaced)


def _commit(side: str, asked: str, root: Path) -> str:
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{asked}^{{commit}}")
    if found.returncode:
        raise CoregateError(
            f"--{side} {asked}: neither a git revision of {root} nor a python executable: give a branch, a tag, a "
            "commit (git log --oneline), the path of a python, or . for the working tree"
        )
    return found.stdout.strip()


@contextmanager
def _worktree(root: Path, commit: str, folder: Path) -> Iterator[Path]:
    try:
        made = _git(root, "worktree", "add", "--quiet", "--detach", str(folder), commit)
        if made.returncode:
            raise CoregateError(f"git worktree add {folder} {commit}: {_last_line(made.stderr)}")
        yield folder
    finally:
        _git(root, "worktree", "remove", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)  # where git had not got far enough to know of it


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """No hooks: a checkout made to be measured must run nobody's scripts. Its own session: Ctrl-C is for us to handle,
    and must not stop git halfway."""
    command = ["git", "-C", str(root), "-c", f"core.hooksPath={os.devnull}", *arguments]
    env = {name: value for name, value in os.environ.items() if name not in OF_A_HOOK}
    try:
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False, start_new_session=True)
    except FileNotFoundError:
        raise CoregateError(
            "git was not found: install it, or give the path of a python instead of a revision"
        ) from None


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no word of why")
