"""Processes that a run waits for: none outlives it, and of one that was killed it is said what killed it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from perf import children
from perf.children import failure, killed_by
from perf.confirm import Command
from perf.errors import CoregateError
from perf.fresh import ChildError, Spec, told_by
from perf.interrupts import Interrupts
from perf.measure.fresh_load import fresh_load

ROOT = Path(__file__).parents[3]
SLEEPER = """
import subprocess, sys, time
from pathlib import Path

subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "grandchild-of-{name}"])
Path({started!r}).touch()
time.sleep(600)
"""
STARTER = """
import sys
from pathlib import Path
from perf.confirm import Command
from perf.fresh import Spec, told_by
from perf.measure.fresh_load import fresh_load
import tempfile

tempfile.tempdir = {scratch!r}
{what}
"""
STARTED = {
    "a start or a warm-up": "told_by('sleeper', Spec({root!r}, (), (), '', 1), Path(tempfile.mkdtemp()), 'one')",
    "a second look": "Command(('-p', 'sleeper'), Path({root!r})).measure(['a/b/c/d/e'])",
    "a loading": "fresh_load('import sleeper', '', (), Path(tempfile.mkdtemp()))",
}


def waited(until: Callable[[], bool]) -> bool:
    """Whether it came true; a minute is more than any of this takes."""
    for _ in range(600):
        if until():
            return True
        time.sleep(0.1)
    return False


def left_of(name: str) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if name in _command(path)]


def _command(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("what", STARTED)
def test_what_a_killed_run_has_started_ends_with_it_and_leaves_no_folder(
    tmp_path: Path, what: str, number: signal.Signals
) -> None:
    root, scratch, started = tmp_path / "root", tmp_path / "scratch", tmp_path / "started"
    root.mkdir()
    scratch.mkdir()
    (root / "sleeper.py").write_text(SLEEPER.format(name=tmp_path, started=str(started)))
    code = STARTER.format(scratch=str(scratch), what=STARTED[what].format(root=str(root)))
    places = os.pathsep.join([str(ROOT), str(root)])
    starter = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": places}, cwd=root)
    assert waited(started.exists)
    assert left_of(f"grandchild-of-{tmp_path}")
    starter.send_signal(number)
    assert starter.wait() == -number
    assert waited(lambda: not left_of(str(tmp_path)))
    assert list(scratch.iterdir()) == []


def test_who_breaks_a_process_off_ends_what_it_has_started(tmp_path: Path) -> None:
    """By a real signal, while the process and one that it has started are at work."""
    started = tmp_path / "started"
    code = SLEEPER.format(name=tmp_path, started=str(started))

    def interrupt() -> None:
        waited(started.exists)
        os.kill(os.getpid(), signal.SIGINT)

    interrupts = Interrupts()
    interrupts.hold()
    Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.heard():
            children.run([sys.executable, "-c", code], tmp_path / "scratch", tmp_path)
    finally:
        interrupts.release()
    assert interrupts.seen
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert left_of(f"grandchild-of-{tmp_path}") == []


TIDY = """
import sys, time
from pathlib import Path
try:
    Path(sys.argv[1]).touch()
    time.sleep(600)
except KeyboardInterrupt:
    Path(sys.argv[2]).touch()
"""


def test_who_is_broken_off_may_tidy_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, tidied = tmp_path / "started", tmp_path / "tidied"
    whole = subprocess.Popen.communicate

    def broken_off(child: subprocess.Popen[str], **how: float) -> tuple[str, str]:
        if how:
            return whole(child, **how)
        assert waited(started.exists)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", broken_off)
    with pytest.raises(KeyboardInterrupt):
        children.run([sys.executable, "-c", TIDY, str(started), str(tidied)], tmp_path / "scratch")
    assert tidied.exists()


def test_a_process_has_its_folder_its_variables_and_its_own_end(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['ASKED']); print('why', file=sys.stderr); sys.exit(3)"
    found = children.run([sys.executable, "-c", code], tmp_path / "absent", tmp_path, {"ASKED": "yes"})
    assert (found.returncode, found.stdout, found.stderr) == (3, f"{tmp_path} yes\n", "why\n")
    assert failure(found) == "why"
    assert failure(children.run([sys.executable, "-c", "raise SystemExit(7)"], tmp_path)) == "the process ended with 7"


WARNS = "import os, sys; print('UserWarning: harmless thing', file=sys.stderr, flush=True); os.kill(os.getpid(), {})"
MEMORY = "killed by SIGKILL (by the kernel, where memory ran out: dmesg says so)"


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, MEMORY), (signal.SIGTERM, "killed by SIGTERM"), (signal.SIGINT, "killed by SIGINT")],
)
def test_of_a_killed_process_the_signal_is_said(tmp_path: Path, number: int, why: str) -> None:
    found = children.run([sys.executable, "-c", WARNS.format(int(number))], tmp_path)
    if number == signal.SIGINT:  # Python's own handler raises
        assert failure(found) == f"{why}; its last line: KeyboardInterrupt"
    else:
        assert (found.returncode, failure(found)) == (-number, f"{why}; its last line: UserWarning: harmless thing")


def test_a_signal_without_a_name_has_a_number() -> None:
    assert killed_by(signal.SIGRTMIN + 1) == f"killed by signal {signal.SIGRTMIN + 1}"


def test_whoever_starts_a_process_says_what_killed_it(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(WARNS.format(9))
    with pytest.raises(ChildError) as cold:
        told_by("dying", Spec(str(tmp_path), (), (), "", 1), tmp_path, "one")
    assert str(cold.value).startswith(MEMORY)
    with pytest.raises(CoregateError) as again:
        Command(("-p", "dying"), tmp_path).measure(["a/b/c/d/e"])
    assert str(again.value).startswith(f"could not be measured again: {MEMORY}")
    with pytest.raises(RuntimeError) as alone:
        fresh_load(WARNS.format(9), "", ("a.onnx",), tmp_path)
    assert str(alone.value).startswith(f"a.onnx does not load: {MEMORY}")
