"""`python -m perf ab` as a user runs it: two real revisions of a project, and what it says where it cannot compare."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from perf.__main__ import main
from perf.ab.command import exit_status
from perf.outcome import Verdict, Word

ROOT = Path(__file__).parents[3]
CORES = """
import os
import torch
from perf.contract import Core, Preset, Shape, Work

print("a library prints while it is imported")
LAYERS = {layers}


class Chain(torch.nn.Module):
    def __init__(self, draws):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = torch.nn.ModuleList(torch.nn.Linear(192, 192) for _ in range(LAYERS))
        self.draws = draws

    def forward(self, x):
        os.write(1, b"and while it runs")
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x / 2
        return x + torch.randn_like(x) if self.draws else x


def core(name, draws=False):
    def inputs(shape, seed):
        return {{"x": torch.randn(23, 192, generator=torch.Generator().manual_seed(seed))}}

    preset = Preset(lambda: Chain(draws).eval(), inputs, (Shape("b23", {{"batch": 23}}),))
    return Core(name, "a toy", "here", {{"tiny": preset}}, ("y",), lambda shape: Work("rows", 23))


CORES = [core("chain"), {others}]
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`base`: a chain of 30 layers, and cores that the next revision drops and breaks. `HEAD`: one of 120 layers, which
    is four times the work, and a core of its own."""
    folder = tmp_path / "project"
    (folder / "mycores").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\nperf_cores = mycores\naddopts = --strict-markers -n 4\n")
    git(folder, "init", "-q")
    revisions = {"base": (30, 'core("dropped"), core("broken")'), "head": (120, 'core("fresh"), core("broken", True)')}
    for name, (layers, others) in revisions.items():
        (folder / "mycores" / "chain.py").write_text(CORES.format(layers=layers, others=others))
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", name)
        git(folder, "tag", name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return folder


def ab(*arguments: str) -> int:
    return main(["ab", "--variant", "eager-fp32", "--device", "cpu", *arguments])


def test_two_revisions_of_a_project(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Four times the layers is regressed by its CPU time; what one side lacks or gets wrong has its word."""
    quick = ("--clock", "cpu_s", "--restarts", "3", "--resolution", "0.5")
    assert ab("--base", "base", "--head", "head", *quick) == 1
    out = capfd.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if "/tiny/" in line.split(" ")[0]}
    words = {key.split("/")[0]: row[-1] for key, row in rows.items()}
    assert words == {"chain": "regressed", "dropped": "missing", "fresh": "new", "broken": "wrong"}
    chain = next(row for key, row in rows.items() if key.startswith("chain/"))
    change = next(float(cell.strip("+%")) / 100 for cell in chain if cell.startswith("+"))
    assert 1.0 < change < 6.0
    assert "in 3 restarts" in " ".join(chain)
    assert "wrong: broken/tiny/eager-fp32/b23/cpu: in the head: not at parity: eager does not agree with itself" in out
    assert f"base: base ({git(project, 'rev-parse', 'base')[:9]})" in out
    assert len(git(project, "worktree", "list").splitlines()) == 1
    assert git(project, "status", "--porcelain") == ""


def test_an_unknown_revision_is_one_line(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ab("--base", "no-such-branch") == 4
    assert capfd.readouterr().err.splitlines()[-1].startswith("error: --base no-such-branch: neither a git revision of")


def test_an_interpreter_without_torch_is_one_line(
    project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that has coregate (through PYTHONPATH) and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    assert ab("--base", str(tmp_path / "bare" / "bin" / "python")) == 4
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: --base {tmp_path}/bare/bin/python starts no worker: ModuleNotFoundError:")
    assert error.endswith("it needs torch and a coregate with perf.ab")


def test_being_stopped_leaves_neither_worktrees_nor_workers(project: Path, tmp_path: Path) -> None:
    """As a cancelled job is, again and again, while both sides are starting."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "perf", "ab", "--base", "base", "--head", "head"]
    run = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE, text=True)
    while not list(scratch.glob("*/head/stderr.log")):
        assert run.poll() is None
        time.sleep(0.05)
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
        run.send_signal(name)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 2
    assert error.splitlines()[-1] == "interrupted: worktrees and workers are gone"
    assert list(scratch.iterdir()) == []
    assert len(git(project, "worktree", "list").splitlines()) == 1
    assert not [name for name in _commands() if str(scratch) in name]


def _commands() -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes().decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@pytest.mark.parametrize(
    ("words", "inconclusive", "status"),
    [
        ([Word.SAME, Word.IMPROVED, Word.NEW], "fail", 0),
        ([Word.SAME, Word.REGRESSED, Word.INCONCLUSIVE], "pass", 1),
        ([Word.SAME, Word.MISSING], "fail", 1),
        ([Word.SAME, Word.WRONG], "fail", 1),
        ([Word.SAME, Word.INCONCLUSIVE], "fail", 6),
        ([Word.SAME, Word.INCONCLUSIVE], "pass", 0),
        ([Word.INCOMPARABLE, Word.NEW], "fail", 4),
        ([Word.INCOMPARABLE, Word.SAME], "fail", 0),
        ([], "fail", 4),
    ],
)
def test_exit_status(words: list[Word], inconclusive: str, status: int) -> None:
    assert exit_status([Verdict("k", "latency_s", word) for word in words], inconclusive) == status


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("--resolution", "3", "a share between 0 and 1 is wanted: 0.03 for 3 %"),
        ("--resolution", "nan", "a share between 0 and 1 is wanted"),
        ("--budget-minutes", "0", "more than 0 is wanted"),
        ("--restarts", "1", "2 or more are wanted"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(
    option: str, value: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ab", "--base", "HEAD", option, value]) == 4
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {option} {value}")
    assert wanted in error


def test_the_other_commands_load_neither_torch_nor_scipy() -> None:
    script = (
        "import sys; from perf.__main__ import parser; parser(); print({'torch', 'scipy', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"
