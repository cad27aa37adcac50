"""`--weights CORE=PATH` and the measured loading, with a loader of the project's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from conftest import Project

LOADER = """
import torch
from safetensors.torch import load_file, save_file

def save_as(module, path):
    (save_file if path.endswith(".safetensors") else torch.save)(module.state_dict(), path)

def load_into(module, path):
    read = load_file if path.endswith(".safetensors") else torch.load
    try:
        module.load_state_dict(read(path))
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path} does not fit: {str(error).splitlines()[0]}") from None
"""
PARITY = ("-m", "parity", "--variant", "eager-fp32", "-o", "perf_weights=myloader", "-o", "pythonpath=.")


@pytest.fixture
def loading(project: Project) -> Project:
    project.write("myloader.py", LOADER)
    return project


def checkpoint(project: Project, out: int = 7) -> None:
    linear = {"first.weight": torch.zeros(32, 16), "first.bias": torch.ones(32)}
    head = {"second.weight": torch.zeros(out, 32), "second.bias": torch.full((out,), 3.0)}
    torch.save(linear | head, project.path / "w.pt")


def test_the_core_runs_with_the_checkpoint(loading: Project) -> None:
    """Its second layer's weights are 0 and its bias 3: a variant that gives 3 everywhere is right, and no other is."""
    checkpoint(loading)
    loading.write(
        "more/threes.py",
        """
        import torch
        from perf.contract import Variant
        from perf.runners import ModuleRunner

        def build(plan):
            return ModuleRunner(lambda x: torch.full((len(x), 7), 3.0), "float32", plan.device)

        VARIANTS = [Variant("threes", build)]
        """,
    )
    threes = (*PARITY, "--variant", "threes", "-o", "perf_variants=more")
    assert loading.run(*threes, "--weights", "toy=w.pt").ret == 0
    assert loading.run(*threes).ret == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("toy", "--weights toy: give CORE=PATH, such as --weights deeplabv3=deeplab.safetensors"),
        ("toi=w.pt", "--weights toi=…: no such core; there are toy"),
        ("toy=absent.pt", "--weights: absent.pt does not fit: *No such file*"),
        ("toy=w.pt", "--weights: w.pt does not fit: Error(s) in loading state_dict for Toy:"),
    ],
)
def test_what_does_not_fit_is_one_line_before_anything_runs(loading: Project, given: str, said: str) -> None:
    checkpoint(loading, out=9)
    result = loading.run(*PARITY, "--weights", given)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


FOUND = "with Path({found!r}).open('a') as told: print(float(self.second.bias[0]), file=told)"


def test_fresh_processes_run_with_the_checkpoint_as_well(loading: Project) -> None:
    """Its head's bias is 3, and what is drawn lies below 1. The run is started in a folder below the root."""
    checkpoint(loading)
    found = loading.path / "found"
    loading.core(before=FOUND.format(found=str(found)))
    core = loading.path / "mycores/toy.py"
    core.write_text(f"from pathlib import Path\n{core.read_text()}")
    spec = ("-m", "coldstart or warmup", "--variant", "eager-fp32", *PARITY[4:], "--perf-seed=1", "--confirm=0")
    (loading.path / "below").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(loading.path / "below")
        result = loading.run(f"--rootdir={loading.path}", *spec, "--weights", "toy=../w.pt")
    assert (result.ret, result.parseoutcomes()["passed"]) == (0, 2)
    assert set(found.read_text().split()) == {"3.0"}


def test_without_a_loader_it_is_said(project: Project) -> None:
    result = project.run("-m", "parity", "--weights", "toy=w.pt")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["ERROR: no loader for weights: set perf_weights = <module> in the pytest configuration"]
    )


def test_loading_is_measured_on_request_in_both_formats(loading: Project) -> None:
    result = loading.run(
        "-m", "loading", "-o", "perf_weights=myloader", "-o", "pythonpath=.", "--benchmark-max-time=0.02", "-v"
    )
    result.assert_outcomes(passed=2, deselected=int(result.parseoutcomes()["deselected"]))
    result.stdout.fnmatch_lines_random(
        ["*toy/tiny/eager-fp32/weights/cpu#load.pt* PASSED*", "*#load.safetensors* PASSED*"]
    )
