"""A second project: its own cores, one line of configuration, and all variants and checks are there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project

ROOT = Path(__file__).parents[3]
NEW_CORE = """
import torch
from perf.contract import Core, Preset, Shape, Work


def inputs(shape, seed):
    return {"x": torch.randn(shape["rows"], 8, generator=torch.Generator().manual_seed(seed))}


class Softplus(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.softplus(x)


PRESET = Preset(Softplus, inputs, (Shape("r3", {"rows": 3}),))
CORES = [Core("dropped-in", "s", "here", {"tiny": PRESET}, ("y",), lambda shape: Work("rows", shape["rows"]))]
"""
NEW_VARIANT = """
from perf.contract import Variant
from perf.runners import ModuleRunner

VARIANTS = [Variant("my-way", lambda plan: ModuleRunner(plan.module("float32"), "float32", plan.device))]
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that no build folder is left here."""
    folder = tmp_path_factory.mktemp("wheel")
    tracked = ["pyproject.toml", "LICENSE", "README.md", "perf"]
    subprocess.run(["cp", "-r", *tracked, folder], cwd=ROOT, check=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (found,) = (folder / "dist").glob("coregate-*.whl")
    return found


def test_the_wheel_holds_perf_alone_and_the_entry_point(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"perf"}
    assert {"perf/suites/test_parity.py", "perf/suites/test_latency.py", "perf/suites/test_graphbreaks.py"} <= set(
        names
    )
    (entry,) = (name for name in names if name.endswith("entry_points.txt"))
    assert zipfile.ZipFile(wheel).read(entry).decode().split() == ["[pytest11]", "perf.plugin", "=", "perf.plugin"]


def test_a_second_project_runs_from_the_wheel(wheel: Path, project: Project) -> None:
    """In a process of its own, with `perf` from the unpacked wheel and this repository nowhere on its path."""
    installed = project.path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--pyargs",
        "perf.suites",
        "-p",
        "perf.plugin",
        "--benchmark-max-time=0.02",
    ]
    narrowed = ["--variant", "eager-?p*", "--variant", "aot_eager", "--variant", "onnx-cpu-fp32"]
    environment = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(
        [*command, "-p", "pytest_benchmark.plugin", *narrowed],
        cwd=project.path, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "10 passed" in run.stdout  # four variants through parity and latency, a count of graphs, a placement
    assert "onnx, opset 20" in run.stdout


def test_a_new_core_and_a_new_variant_are_one_file_each(project: Project) -> None:
    project.write("mycores/dropped_in.py", NEW_CORE)
    project.write("myvariants/mine.py", NEW_VARIANT)
    quick = ("--benchmark-max-time=0.02", "--variant", "eager-fp32", "--variant", "my-way")
    result = project.run("-o", "perf_variants=myvariants", *quick, "-rA")
    result.assert_outcomes(passed=2 * 2 * 2 + 2)
    for core in ("toy/tiny/{}/b5/cpu", "dropped-in/tiny/{}/r3/cpu"):
        for variant in ("eager-fp32", "my-way"):
            result.stdout.fnmatch_lines_random([f"PASSED *test_parity[[]{core.format(variant)}[]]"])
            result.stdout.fnmatch_lines_random([f"PASSED *test_latency[[]{core.format(variant)}[]]"])
    result.stdout.fnmatch_lines_random(["PASSED *test_graphbreaks[[]dropped-in/tiny/cpu/dynamic=None[]]"])


def test_the_readmes_core_runs_as_it_stands(project: Project) -> None:
    text = (ROOT / "README.md").read_text()
    project.write("mycores/mlp.py", text.split("```python\n")[1].split("```")[0])
    quick = ("--benchmark-max-time=0.02", "--core", "mlp", "--variant", "eager-fp32", "--variant", "onnx-cpu-fp32")
    result = project.run(*quick)
    result.assert_outcomes(passed=1 + 2 * 2 + 1, deselected=3 * 2)  # graphs; both; placement; on request


def test_loading_the_plugin_imports_no_torch() -> None:
    script = "import sys, perf.plugin; sys.exit(bool({'torch', 'numpy', 'onnxruntime'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


def test_help_names_our_options(project: Project) -> None:
    result = project.pytester.runpytest_inprocess("--help")
    for option in ("*--core=PATTERN*", "*--matrix={standard,covering,full}*", "*--graph-report=FILE.json*"):
        result.stdout.fnmatch_lines_random([option])


def test_no_compiler_is_a_skip_that_says_so(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project.path))
    result = project.run("--variant", "inductor-default", "--variant", "eager-fp32", "-m", "parity")
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["1 case: no C++ compiler that Inductor would take is on PATH: apt-get install g++, or set CXX*"]
    )
