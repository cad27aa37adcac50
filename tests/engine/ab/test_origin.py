"""Where a side's code comes from: a checkout that is always removed, the working tree, or an interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perf.ab.origin import Origin, opened
from perf.errors import CoregateError


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, name: str, text: str) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, and an edit that is in neither."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "core.py", "first")
    commit(folder, "core.py", "second")
    (folder / "core.py").write_text("edited")
    return folder


def worktrees(folder: Path) -> int:
    return len(git(folder, "worktree", "list").splitlines())


@pytest.mark.parametrize(("asked", "text"), [("HEAD", "second"), ("main~1", "first"), (".", "edited")])
def test_a_revision_is_checked_out_and_the_working_tree_is_as_it_is(
    repository: Path, tmp_path: Path, asked: str, text: str
) -> None:
    with opened("base", asked, repository, tmp_path) as origin:
        assert (origin.root / "core.py").read_text() == text
        assert origin.python == Path(sys.executable)
        assert (origin.root == repository) is (asked == ".")
        assert origin.replaced == (None if asked == "." else repository)
    assert worktrees(repository) == 1
    assert (repository / "core.py").read_text() == "edited"


@pytest.mark.parametrize("ends", [KeyboardInterrupt, CoregateError, ValueError])
def test_a_worktree_goes_whatever_ends_its_use(repository: Path, tmp_path: Path, ends: type[BaseException]) -> None:
    def use() -> None:
        with opened("base", "HEAD", repository, tmp_path) as origin:
            (origin.root / "untracked").write_text("left behind")
            assert worktrees(repository) == 2
            raise ends

    with pytest.raises(ends):
        use()
    assert worktrees(repository) == 1
    assert list(tmp_path.iterdir()) == [repository]


def test_the_users_own_worktrees_stay_even_those_whose_folder_is_away(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "own"))
    (tmp_path / "own").rename(tmp_path / "unplugged")
    with opened("base", "HEAD", repository, tmp_path):
        assert worktrees(repository) == 3
    assert worktrees(repository) == 2


def test_a_checkout_runs_no_hook(repository: Path, tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with opened("base", "HEAD", repository, tmp_path):
        assert not (tmp_path / "ran").exists()


def test_a_project_in_a_folder_of_its_repository_is_found_there(repository: Path, tmp_path: Path) -> None:
    commit(repository, "inner/core.py", "inner")
    with opened("base", "HEAD", repository / "inner", tmp_path) as origin:
        assert (origin.root / "core.py").read_text() == "inner"
    with pytest.raises(CoregateError, match=r"--base HEAD~1: that revision has no folder inner"):
        opened("base", "HEAD~1", repository / "inner", tmp_path).__enter__()
    assert worktrees(repository) == 1


def test_the_path_of_a_python_is_taken_as_it_is_link_or_not(repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    with opened("head", str(link), repository, tmp_path) as origin:
        assert origin == Origin("head", str(link), link, repository)


@pytest.mark.parametrize("asked", ["no-such-branch", "--all", "HEAD:core.py", "core.py", ""])
def test_what_is_neither_revision_nor_python_is_one_line(repository: Path, tmp_path: Path, asked: str) -> None:
    with pytest.raises(CoregateError, match=r"neither a git revision of .* nor a python executable") as caught:
        opened("base", asked, repository, tmp_path).__enter__()
    assert "\n" not in str(caught.value)


def test_a_revision_outside_any_repository_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match="--base HEAD: neither a git revision of"):
        opened("base", "HEAD", tmp_path, tmp_path).__enter__()
