"""Both ends of a side's process: what it inherits, its lines, and its ends."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from perf.ab.interleave import SideDiedError
from perf.ab.origin import Origin
from perf.ab.worker import CACHES, Worker, environment
from perf.errors import CoregateError

HELLO = {"coregate_ab": 1, "software": {"torch": "2.0"}}


def test_neither_side_has_a_cache_of_the_others_or_of_ours(tmp_path: Path) -> None:
    inherited = dict.fromkeys(CACHES, "/mine") | {"PATH": "/bin", "PYTEST_ADDOPTS": "-n 4"}
    base, head = (environment(inherited, tmp_path / side) for side in ("base", "head"))
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "TORCH_EXTENSIONS_DIR"):
        assert Path(base[name]).is_relative_to(tmp_path / "base")
        assert Path(head[name]).is_relative_to(tmp_path / "head")
    assert base["PATH"] == "/bin"
    assert "PYTEST_ADDOPTS" not in base


def test_waiting_threads_sleep_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    assert environment({}, tmp_path)["OMP_WAIT_POLICY"] == "passive"
    assert environment({"OMP_WAIT_POLICY": "active"}, tmp_path)["OMP_WAIT_POLICY"] == "active"


def worker(folder: Path, script: str, limit_s: float = 20.0) -> Worker:
    """A worker whose interpreter is a script of ours in python's place."""
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\nimport json, os, signal, sys, time\n{dedent(script)}")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return Worker(Origin("head", "HEAD~1", python, folder, Path("/tree")), ["-k", "x"], folder / "cache", limit_s)


def said(answer: dict[str, object]) -> str:
    return f"print({json.dumps(json.dumps(answer))}, flush=True)\n"


def test_what_an_interpreter_prints_before_hello_is_passed_over(tmp_path: Path) -> None:
    side = worker(tmp_path, "print('a site hook says hello'); print('[1]')\n" + said(HELLO))
    assert side.hello() == HELLO
    side.kill()


def test_a_worker_starts_in_its_folder_with_its_arguments(tmp_path: Path) -> None:
    script = "print(json.dumps({'coregate_ab': 1, 'argv': sys.argv[1:], 'cwd': os.getcwd()}), flush=True)"
    side = worker(tmp_path, script)
    found = side.hello()
    side.kill()
    own = ["--cache", str(tmp_path / "cache" / "coregate"), "--replaced", "/tree"]
    assert found["argv"] == ["-m", "perf.ab.side", *own, "-k", "x"]
    assert found["cwd"] == str(tmp_path)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sys.exit('No module named torch')", "--head HEAD~1 starts no worker: No module named torch: it needs torch"),
        ("sys.exit(3)", "--head HEAD~1 starts no worker: exit status 3"),
        (said({"error": "mycores/x.py does not import"}), "--head HEAD~1: mycores/x.py does not import"),
        (said({**HELLO, "coregate_ab": 0}), "--head HEAD~1 speaks protocol 0, not 1: take a nearer revision"),
    ],
)
def test_a_side_that_does_not_come_up_is_one_line(tmp_path: Path, script: str, message: str) -> None:
    side = worker(tmp_path, script)
    with pytest.raises(CoregateError) as caught:
        side.hello()
    side.kill()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_file_that_no_system_can_run_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "python").write_bytes(b"\0\1\2")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(CoregateError, match=r"^--head HEAD~1 does not run: Exec format error: it must be a python"):
        Worker(Origin("head", "HEAD~1", tmp_path / "python", tmp_path), (), tmp_path / "cache", 1.0)


def test_a_worker_that_is_killed_says_by_what(tmp_path: Path) -> None:
    side = worker(tmp_path, said(HELLO) + "sys.stdin.readline(); os.kill(os.getpid(), signal.SIGSEGV)")
    side.hello()
    with pytest.raises(SideDiedError, match="killed by SIGSEGV") as caught:
        side.ask("build", key="k")
    assert caught.value.side == "head"
    assert caught.value.in_time
    side.kill()


def test_a_worker_that_does_not_answer_is_killed(tmp_path: Path) -> None:
    side = worker(tmp_path, said(HELLO) + "time.sleep(600)", limit_s=0.3)
    side.hello()
    with pytest.raises(SideDiedError, match=r"no answer within .* raise --budget-minutes") as caught:
        side.ask("build", key="k")
    assert not caught.value.in_time
    side.kill()


def test_a_side_that_does_not_know_a_request_is_one_line(tmp_path: Path) -> None:
    side = worker(tmp_path, said(HELLO) + "sys.stdin.readline();" + said({"error": "knows no request 'cases'"}))
    side.hello()
    with pytest.raises(CoregateError, match=r"^--head HEAD~1: knows no request 'cases'$"):
        side.ask("cases")
    side.kill()


def test_nothing_that_a_worker_started_is_left(tmp_path: Path) -> None:
    script = "import subprocess; child = subprocess.Popen(['sleep', '600'])\n"
    script += "print(json.dumps({'coregate_ab': 1, 'child': child.pid}), flush=True); sys.stdin.read()"
    side = worker(tmp_path, script)
    child = side.hello()["child"]
    side.kill()
    for _ in range(100):
        if not _runs(child):
            break
        time.sleep(0.05)
    assert not _runs(child)


def _runs(process: int) -> bool:
    """Neither gone nor a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_answers_are_apart_from_whatever_prints(tmp_path: Path) -> None:
    """Python's print, a write to fd 1 from C, and a child process: all of it goes to stderr; stdin reads as empty."""
    script = """
    import os, subprocess, sys
    from perf.ab.side import Lines
    lines = Lines.take()
    print("printed", flush=True)
    os.write(1, b"written\\n")
    subprocess.run(["echo", "echoed"])
    lines.say({"read": sys.stdin.read()})
    for request in lines.requests():
        lines.say(request)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(script)],
        input='{"ask": "cases"}\n{"ask": "quit"}\n{"ask": "never"}\n',
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.splitlines() == ['{"read": ""}', '{"ask": "cases"}']
    assert done.stderr.split() == ["printed", "written", "echoed"]
