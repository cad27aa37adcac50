"""`make nightly`: two runs, one exit status, in a file because make hides it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MAKE = shutil.which("make") or "make"
FAKE = """#!/bin/sh
echo "$*" >> calls
trap 'echo interrupted >> calls; exit 2' INT
case "$*" in *endless*) while :; do sleep 0.1; done;; esac
case "$*" in *coldstart*) status={cold};; *) status={checks};; esac
echo $status >"$3"
exit $status
"""
SILENT = "#!/bin/sh\necho >>calls\n"

TIME_IS_UP = """#!/bin/sh
[ "$1 $2 $3" = "--foreground --signal=INT --kill-after=60s" ] || exit 125
shift 4
"$@"
exit {code}
"""
IN_THE_BACKGROUND = """#!/bin/sh
shift 4
"$@" &
while kill -0 $! && [ ! -e told ]; do sleep 0.1; done
kill -INT $!
wait $!
exit 124
"""
AT_WORK = """
import pathlib, time
def main(arguments):
    told = pathlib.Path("told")
    try:
        told.touch()
        time.sleep(10)
    except KeyboardInterrupt:
        told.write_text("interrupted")
        return 2
    return 0
"""
ENDS = """
import sys
def main(arguments):
    if "coldstart" in arguments:
        {cold}
    return {checks}
"""


def copy(folder: Path) -> None:
    """What `make nightly` is made of."""
    (folder / ".ci").mkdir(exist_ok=True)
    for name in ("Makefile", ".ci/night"):
        shutil.copy(ROOT / name, folder / name)


def executable(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [MAKE, "-o", "env", "nightly", "BIN=.", *arguments]
    env = dict(os.environ) | environment
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=env)


def nightly(folder: Path, checks: int, cold: int, *arguments: str) -> tuple[str, list[str]]:
    """(what is in nightly/status, the command lines) where pytest would exit with these."""
    copy(folder)
    executable(folder / "python", FAKE.format(checks=checks, cold=cold))
    (folder / "nightly").mkdir()
    (folder / "nightly" / "left-over.md").touch()
    make(folder, *arguments)
    assert not (folder / "nightly" / "left-over.md").exists()
    return (folder / "nightly" / "status").read_text().strip(), (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("checks", "cold", "status"),
    [
        (0, 0, "0"),
        (0, 6, "6"),
        (0, 1, "1"),
        (6, 0, "6"),
        (6, 6, "6"),
        (6, 1, "1"),
        (1, 0, "1"),
        (1, 6, "1"),
        (0, 4, "4"),
        (6, 4, "4"),
        (5, 0, "5"),
    ],
)
def test_the_worse_of_both_is_the_nights(tmp_path: Path, checks: int, cold: int, status: str) -> None:
    found, calls = nightly(tmp_path, checks, cold)
    assert (found, len(calls)) == (status, 1 if checks == 5 else 2)


@pytest.mark.parametrize("checks", [2, 3, 4])
def test_a_run_that_broke_off_is_not_followed_by_another(tmp_path: Path, checks: int) -> None:
    found, calls = nightly(tmp_path, checks, 0)
    assert (found, len(calls)) == (str(checks), 1)


def test_a_pytest_that_ended_with_no_word_of_its_own_has_not_passed(tmp_path: Path) -> None:
    """What it loads may end the process, with status 0."""
    copy(tmp_path)
    executable(tmp_path / "python", SILENT)
    make(tmp_path)
    assert (tmp_path / "nightly" / "status").read_text() == "3\n"
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_cold_starts_are_few_and_none_where_cases_are_chosen(tmp_path: Path) -> None:
    _, (checks, cold) = nightly(tmp_path, 0, 0)
    assert "--device cuda" in checks
    assert "--core" not in checks
    assert "--core deeplabv3" in cold
    for made in ("python", "calls"):
        (tmp_path / made).unlink()
    shutil.rmtree(tmp_path / "nightly")
    _, (checks,) = nightly(tmp_path, 0, 0, "NIGHTLY=--core unet", "DEVICE=--device cpu")
    assert "--device cpu -m parity" in checks
    assert checks.count("--core unet") == 1


@pytest.mark.parametrize("chosen", [["COLD=--core vits-dec"], ["COLD=--core vits-dec", "NIGHTLY=--core unet"]])
def test_cold_starts_that_are_named_are_made_and_those_that_are_not_there_fail(
    tmp_path: Path, chosen: list[str]
) -> None:
    """The gate says 4 where nothing is compared."""
    found, (_, cold) = nightly(tmp_path, 0, 4, *chosen)
    assert (found, "-m coldstart --core vits-dec" in cold, "--core unet" in cold) == ("4", True, False)


def test_a_night_without_cold_starts(tmp_path: Path) -> None:
    found, calls = nightly(tmp_path, 6, 1, "COLD=")
    assert (found, len(calls)) == ("6", 1)


def test_a_night_is_interrupted_when_its_time_is_up(tmp_path: Path) -> None:
    """Interrupted, pytest keeps what it has measured; killed, it would not."""
    found, calls = nightly(tmp_path, 0, 0, "NIGHTLY=-k endless", "LIMIT=1s")
    assert (found, calls[1:]) == ("124", ["interrupted"])


def test_a_night_in_the_background_of_a_script_is_interrupted_as_well(tmp_path: Path) -> None:
    """Such a script is the `timeout` here, whose time is up as soon as pytest is at work."""
    copy(tmp_path)
    (tmp_path / "pytest.py").write_text(AT_WORK)
    executable(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    executable(tmp_path / "timeout", IN_THE_BACKGROUND)
    make(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (tmp_path / "told").read_text() == "interrupted"
    assert (tmp_path / "nightly" / "status").read_text() == "124\n"


@pytest.mark.parametrize("code", [124, 137])
@pytest.mark.parametrize(
    ("checks", "cold", "status"),
    [
        (0, "return 0", "0"),
        (0, "return 6", "6"),
        (1, "return 0", "1"),
        (2, "return 0", "{code}"),  # it was interrupted while it measured
        (0, "return 2", "{code}"),
        (0, "raise KeyboardInterrupt", "{code}"),
        (6, "sys.exit(0)", "{code}"),
    ],
)
def test_a_run_that_had_ended_when_its_time_was_up_ends_as_it_said(
    tmp_path: Path, code: int, checks: int, cold: str, status: str
) -> None:
    """Beside a `timeout` whose time is always up while Python ends, and a pytest of a few lines."""
    copy(tmp_path)
    (tmp_path / "pytest.py").write_text(ENDS.format(checks=checks, cold=cold))
    executable(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    executable(tmp_path / "timeout", TIME_IS_UP.format(code=code))
    make(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (tmp_path / "nightly" / "status").read_text() == f"{status.format(code=code)}\n"


def test_two_nights_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    """The second is refused, and leaves the first one's folder alone; the lock file that stays is in no one's way."""
    nightly(tmp_path, 1, 0)
    executable(tmp_path / "python", FAKE.format(checks=0, cold=0))
    with (tmp_path / "nightly.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = make(tmp_path)
    assert refused.returncode == 2
    assert f"{tmp_path}/nightly.lock is held: another make nightly is at work here" in refused.stderr
    assert len((tmp_path / "calls").read_text().splitlines()) == 2
    assert (tmp_path / "nightly" / "status").read_text() == "1\n"
    assert make(tmp_path).returncode == 0
    assert (tmp_path / "nightly" / "status").read_text() == "0\n"


def test_pytest_holds_the_lock_as_long_as_it_runs(tmp_path: Path) -> None:
    """Also where what started it was killed."""
    copy(tmp_path)
    executable(
        tmp_path / "python",
        "#!/bin/sh\nflock --nonblock nightly.lock true\n[ $? = 1 ] && readlink /proc/$$/fd/9 >> held\necho 0 >$3\n",
    )
    make(tmp_path)
    assert (tmp_path / "held").read_text().splitlines() == [f"{tmp_path}/nightly.lock"] * 2


@pytest.mark.parametrize("tool", ["flock", "timeout"])
def test_a_night_that_could_not_be_guarded_is_none(tmp_path: Path, tool: str) -> None:
    copy(tmp_path)
    (tmp_path / ({"flock", "timeout"} - {tool}).pop()).symlink_to("/bin/true")
    refused = make(tmp_path, PATH=str(tmp_path))
    assert refused.returncode == 2
    assert f"make: '{tool}' was not found" in refused.stderr
    assert not (tmp_path / "nightly").exists()


def test_the_planted_slowdown_can_be_planted_again() -> None:
    """In what stands here: the night's page says how it is caught."""
    patch = ROOT / "docs" / "nightly" / "planted-3-percent.patch"
    found = subprocess.run(
        ["git", "apply", "--check", str(patch)], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert (found.returncode, found.stderr) == (0, "")
