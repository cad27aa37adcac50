"""The shell in the workflows, run beside a `gh` that knows some former nights."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"
GH = """#!/bin/sh
case "$2" in
  list) cat "$NIGHTS/list" ;;
  download) [ -f "$NIGHTS/$3" ] && mkdir -p "$9" && cp "$NIGHTS/$3" "$9/status" ;;
esac
"""
WARNED, TWICE = "::warning title=Inconclusive::", "::error title=Inconclusive twice"


def step(workflow: str, job: str, name: str) -> str:
    steps = yaml.safe_load((FOLDER / f"{workflow}.yml").read_text())["jobs"][job]["steps"]
    found: str = next(step["run"] for step in steps if step.get("name") == name)
    return found


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """As GitHub runs it: bash that stops at the first failure."""
    bare = {"PATH": f"{folder}:{os.environ['PATH']}", "RUNNER_TEMP": str(folder), "REPOSITORY": "we/coregate"}
    return subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env=bare | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("status", "before", "code", "said"),
    [
        (0, {}, 0, ""),
        (1, {"7": 6}, 1, ""),
        (124, {}, 124, ""),
        (6, {}, 0, WARNED),
        (6, {"7": 0}, 0, WARNED),
        (6, {"7": 6}, 1, TWICE),
        (6, {"9": None, "8": None, "7": 6}, 1, TWICE),  # two were cancelled and left nothing
        (6, {"9": 0, "7": 6}, 0, WARNED),
    ],
)
def test_a_night_that_could_not_tell_fails_where_the_one_before_could_not_either(
    tmp_path: Path, status: int, before: dict[str, int | None], code: int, said: str
) -> None:
    nights = tmp_path / "nights"
    for path in (nights, tmp_path / "nightly"):
        path.mkdir()
    (tmp_path / "nightly" / "status").write_text(f"{status}\n")
    (nights / "list").write_text("\n".join(before))
    for night, ended in before.items():
        if ended is not None:
            (nights / night).write_text(f"{ended}\n")
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    for _ in range(2):  # what one night left behind is in no other's way
        done = shell(step("nightly-gpu", "gate", "Outcome"), tmp_path, NIGHTS=str(nights))
        assert done.returncode == code, done.stderr
        assert said in done.stdout
        assert ("::" in done.stdout) == bool(said)


def test_a_night_that_cannot_ask_how_the_last_one_ended_fails(tmp_path: Path) -> None:
    (tmp_path / "nightly").mkdir()
    (tmp_path / "nightly" / "status").write_text("6\n")
    (tmp_path / "gh").write_text("#!/bin/sh\nexit 4\n")
    (tmp_path / "gh").chmod(0o755)
    assert shell(step("nightly-gpu", "gate", "Outcome"), tmp_path).returncode == 4


@pytest.mark.parametrize(("status", "code", "said"), [(0, 0, ""), (1, 1, ""), (3, 3, ""), (6, 0, WARNED)])
def test_what_an_ab_could_not_tell_fails_no_pull_request(tmp_path: Path, status: int, code: int, said: str) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "the table of $*"\nexit {status}\n')
    python.chmod(0o755)
    done = shell(step("perf", "ab", "A/B"), tmp_path)
    assert done.returncode == code
    assert (tmp_path / "ab.txt").read_text() in done.stdout
    assert "--base HEAD^1 --head ." in done.stdout
    assert (WARNED in done.stdout) == bool(said)


@pytest.mark.parametrize(
    ("cores", "variants", "options"),
    [("", "", ""), ("flux-* unet", "eager-*", " --core 'flux-*' --core 'unet' --variant 'eager-*'")],
)
def test_the_inputs_of_a_night_reach_coregate_as_patterns(
    tmp_path: Path, cores: str, variants: str, options: str
) -> None:
    (tmp_path / "unet").touch()
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\nfor a; do echo "<$a>"; done\n')
    make.chmod(0o755)
    done = shell(step("nightly-gpu", "gate", "Gate"), tmp_path, CORES=cores, VARIANTS=variants, VENV=".venv")
    assert done.stdout.splitlines() == ["<nightly>", "<VENV=.venv>", f"<NIGHTLY={options}>"]
