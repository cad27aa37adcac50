"""The shell in the workflows, run beside a `gh` that knows some former nights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".github" / "workflows"
GH = """#!/bin/sh
case "$2" in
  list) cat "$NIGHTS/list" ;;
  download) [ -f "$NIGHTS/$3" ] && mkdir -p "$9" && if [ -s "$NIGHTS/$3" ]; then cp "$NIGHTS/$3" "$9/status"; fi ;;
esac
"""
PYTHON = """#!/bin/sh
for argument; do printf '%s\\n' "$argument" >> asked; done
[ "$1" = -c ] && echo {status} >"$3"
exit {status}
"""
WARNED, TWICE = "::warning title=Inconclusive::", "::error title=Inconclusive twice"


def jobs(workflow: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{workflow}.yml").read_text())["jobs"]
    return found


def step(workflow: str, job: str, name: str) -> str:
    found: str = next(step["run"] for step in jobs(workflow)[job]["steps"] if step.get("name") == name)
    return found


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


def checkout(folder: Path, status: int) -> None:
    """As a runner keeps it from the night before, which ended well; tonight pytest says `status`."""
    (folder / ".ci").mkdir(parents=True)
    for file in ("Makefile", ".ci/night"):
        shutil.copy(ROOT / file, folder / file)
    for file in ("pyproject.toml", "constraints.txt", ".venv/.installed"):  # in this order, so that it is installed
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).touch()
    executable(folder / ".venv" / "bin" / "python", PYTHON.format(status=status))
    for file, what in {"nightly/status": "0\n", "nightly/report.md": "of last night", "ab.txt": "of the last"}.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(what)


def run_job(workflow: str, job: str, folder: Path, **environment: str) -> tuple[bool, str]:
    """(whether it passed, its summary) of a job's own shell, step by step."""
    summary, passed = folder / "summary", True
    for what in jobs(workflow)[job]["steps"]:
        if "run" in what and (passed or what.get("if") == "always()"):
            done = shell(what["run"], folder, GITHUB_STEP_SUMMARY=str(summary), **environment)
            passed = passed and done.returncode == 0
    return passed, summary.read_text() if summary.exists() else ""


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
        (6, {"9": "", "7": 6}, 1, TWICE),  # one was cancelled and left no status
        (6, {"9": 0, "7": 6}, 0, WARNED),
    ],
)
def test_a_night_that_could_not_tell_fails_where_the_one_before_could_not_either(
    tmp_path: Path, status: int, before: dict[str, int | str | None], code: int, said: str
) -> None:
    nights = tmp_path / "nights"
    for path in (nights, tmp_path / "nightly"):
        path.mkdir()
    (tmp_path / "nightly" / "status").write_text(f"{status}\n")
    (nights / "list").write_text("\n".join(before))
    for night, ended in before.items():
        if ended is not None:
            (nights / night).write_text(f"{ended}\n" if ended != "" else "")
    executable(tmp_path / "gh", GH)
    for _ in range(2):  # what one night left behind is in no other's way
        done = shell(step("nightly-gpu", "gate", "Outcome"), tmp_path, NIGHTS=str(nights))
        assert done.returncode == code, done.stderr
        assert said in done.stdout
        assert ("::" in done.stdout) == bool(said)


def test_a_night_that_cannot_ask_how_the_last_one_ended_fails(tmp_path: Path) -> None:
    (tmp_path / "nightly").mkdir()
    (tmp_path / "nightly" / "status").write_text("6\n")
    executable(tmp_path / "gh", "#!/bin/sh\nexit 4\n")
    assert shell(step("nightly-gpu", "gate", "Outcome"), tmp_path).returncode == 4


@pytest.mark.parametrize(("status", "code", "said"), [(0, 0, ""), (1, 1, ""), (3, 3, ""), (6, 0, WARNED)])
def test_what_an_ab_could_not_tell_fails_no_pull_request(tmp_path: Path, status: int, code: int, said: str) -> None:
    executable(tmp_path / ".venv" / "bin" / "python", f'#!/bin/sh\necho "the table of $*"\nexit {status}\n')
    done = shell(step("perf", "ab", "A/B"), tmp_path)
    assert done.returncode == code
    assert (tmp_path / "ab.txt").read_text() in done.stdout
    assert "--base HEAD^1 --head ." in done.stdout
    assert (WARNED in done.stdout) == bool(said)


@pytest.mark.parametrize(
    ("cores", "variants", "options"),
    [
        ("", "", []),
        ("flux-* unet", "eager-*", ["--core=flux-*", "--core=unet", "--variant=eager-*"]),
        ("[a-f]?* [!x]*", "-x", ["--core=[a-f]?*", "--core=[!x]*", "--variant=-x"]),
    ],
)
def test_the_inputs_of_a_night_reach_pytest_as_they_were_given(
    tmp_path: Path, cores: str, variants: str, options: list[str]
) -> None:
    checkout(tmp_path, 1)
    (tmp_path / "unet").touch()
    done = shell(step("nightly-gpu", "gate", "Gate"), tmp_path, CORES=cores, VARIANTS=variants, VENV=".venv")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "status 1")
    asked = (tmp_path / "asked").read_text().splitlines()
    checks = asked[: asked.index("--benchmark-json=nightly/run.json")]
    assert [word for word in checks if word.startswith(("--core", "--variant"))] == options


@pytest.mark.parametrize(
    "pattern", ["flux-$(", "$HOME", "$$", "x';touch${IFS}ran;'", "`touch ran`", 'a"b', "a\\b", "a#b", "a\nb", "ü;"]
)
@pytest.mark.parametrize("given", ["CORES", "VARIANTS"])
def test_what_make_or_a_shell_might_take_as_its_own_is_refused(tmp_path: Path, pattern: str, given: str) -> None:
    checkout(tmp_path, 0)
    inputs = {"CORES": "", "VARIANTS": "", "VENV": ".venv", given: pattern}
    done = shell(step("nightly-gpu", "gate", "Gate"), tmp_path, **inputs)
    assert (done.returncode, done.stdout.partition("::cores")[0]) == (4, "::error title=Not a pattern")
    assert not (tmp_path / "asked").exists()
    assert not (tmp_path / "ran").exists()
    assert run_job("nightly-gpu", "gate", tmp_path, OWN_TORCH="false", **inputs) == (False, "")


@pytest.mark.parametrize("fault", ["$(", "nightly: nosuch", ".venv/.installed: nosuch"])
def test_a_night_whose_make_fails_shows_nothing_of_the_night_before(tmp_path: Path, fault: str) -> None:
    checkout(tmp_path, 0)
    with (tmp_path / "Makefile").open("a") as makefile:
        makefile.write(f"\n{fault}\n")
    inputs = {"CORES": "", "VARIANTS": "", "VENV": ".venv", "OWN_TORCH": "false"}
    assert run_job("nightly-gpu", "gate", tmp_path, **inputs) == (False, "")
    assert not (tmp_path / "nightly").exists()
    assert (tmp_path / ".venv" / ".installed").exists()


@pytest.mark.parametrize(("status", "passed"), [(0, True), (1, False)])
def test_a_night_ends_as_its_pytest_does(tmp_path: Path, status: int, passed: bool) -> None:
    checkout(tmp_path, status)
    inputs = {"CORES": "unet", "VARIANTS": "", "VENV": ".venv", "OWN_TORCH": "false"}
    assert run_job("nightly-gpu", "gate", tmp_path, **inputs) == (passed, "")
    assert (tmp_path / "nightly" / "status").read_text() == f"{status}\n"


def test_a_make_that_fails_with_a_good_status_is_no_good_night(tmp_path: Path) -> None:
    (tmp_path / "nightly").mkdir()
    executable(tmp_path / "make", "#!/bin/sh\necho 0 > nightly/status\nexit 2\n")
    done = shell(step("nightly-gpu", "gate", "Gate"), tmp_path, CORES="", VARIANTS="", VENV=".venv")
    assert done.returncode == 1


def test_an_ab_that_does_not_begin_shows_nothing_of_the_one_before(tmp_path: Path) -> None:
    checkout(tmp_path, 0)
    (tmp_path / "Makefile").write_text("env:\n\tfalse\n")
    assert run_job("perf", "ab", tmp_path) == (False, "")


@pytest.mark.parametrize(("workflow", "job"), [("nightly-gpu", "gate"), ("perf", "ab")])
def test_what_the_job_before_left_goes_before_anything_can_fail(workflow: str, job: str) -> None:
    """A checkout that fails would leave it there, too."""
    assert jobs(workflow)[job]["steps"][0]["name"].startswith("Nothing of the")


@pytest.mark.parametrize(("files", "runs"), [(["run.json"], 1), (["run.json", "cold.json"], 2), (["report.md"], 0)])
def test_what_is_accepted_is_what_this_runs_gate_has_uploaded(tmp_path: Path, files: list[str], runs: int) -> None:
    with zipfile.ZipFile(tmp_path / "seven.zip", "w") as archive:
        for file in files:
            archive.writestr(file, "{}")
    executable(
        tmp_path / "gh", '#!/bin/sh\n[ "$*" = "api repos/we/coregate/actions/artifacts/7/zip" ] && cat seven.zip\n'
    )
    script = f'#!/bin/sh\necho "$*" >> calls\ncase "$2" in zipfile) exec {sys.executable} "$@";; esac\n'
    executable(tmp_path / "python", script)
    done = shell(step("nightly-gpu", "accept", "Accept"), tmp_path, ARTIFACT="7", REASON="it is meant")
    assert (done.returncode, "Nothing to accept" in done.stdout) == ((0, False) if runs else (1, True))
    accepted = " ".join(f"nightly/{file}" for file in files)
    last = (tmp_path / "calls").read_text().splitlines()[-1]
    assert (last == f"-m perf accept {accepted} --reason it is meant") == bool(runs)


def test_without_an_upload_of_this_run_nothing_is_accepted() -> None:
    gate, accept = jobs("nightly-gpu")["gate"], jobs("nightly-gpu")["accept"]
    upload = next(what for what in gate["steps"] if what.get("with", {}).get("path") == "nightly/")
    assert gate["outputs"] == {"artifact": f"${{{{ steps.{upload['id']}.outputs.artifact-id }}}}"}
    assert "&& needs.gate.outputs.artifact != '' &&" in accept["if"]
    given = next(what["env"] for what in accept["steps"] if what.get("name") == "Accept")
    assert given["ARTIFACT"] == "${{ needs.gate.outputs.artifact }}"
