"""AOTInductor packages: one is compiled, and most tests share it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor
from torch import Tensor, nn

from perf.backends import aot_package
from perf.backends.aot_package import CHECK_INPUTS, AotRunner, checked_inputs
from perf.backends.torch_export import example
from perf.catalogue import discover
from perf.contract import Axis, Blueprint, Inputs, Shape
from perf.measure.fresh_load import fresh_load
from tests.engine.onnx_toys import blueprint

ROOT = Path(__file__).parents[3]
VARIANTS = discover([], [], ROOT).variants
SHAPES = (Shape("b1", {"batch": 1, "width": 16}), Shape("b3", {"batch": 3, "width": 24}))
AXES = {"x": {0: Axis("batch", 2, 8), 1: Axis("width", 16, 64, multiple=8)}, "gain": {0: Axis("batch", 2, 8)}}
TOY = '''
import torch


class Toy(torch.nn.Module):
    """Groups of 8 columns, summed and scaled: a width that 8 does not divide has no meaning."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, x, gain):
        return x.unflatten(1, (-1, 8)).sum(2) * self.weight * gain[:, None]


def inputs(shape, seed):
    draw = torch.Generator().manual_seed(seed)
    batch, width = shape["batch"], shape["width"]
    return {"x": torch.randn(batch, width, generator=draw), "gain": torch.randn(batch, generator=draw)}
'''
IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
import torch, torch._inductor
torch._inductor.aoti_compile_and_package = None
from perf.backends.aot_package import AotRunner
from tests.engine.backends.test_aot import toy_blueprint
torch.set_num_threads(int(sys.argv[2]))
print(AotRunner(toy_blueprint(Path(sys.argv[1])), "float32").package)
"""


def toy_blueprint(cache: Path) -> Blueprint:
    """Of the core that stands in `toycore.py` on the path."""
    toy: Any = import_module("toycore")
    return blueprint(cache, toy.Toy, inputs=toy.inputs, shapes=SHAPES, dynamic=AXES)


def by_hand(inputs: Inputs) -> Tensor:
    """3 · gain · sums of 8 columns, in float64."""
    x = inputs["x"].double()
    sums = torch.stack([x[:, start : start + 8].sum(1) for start in range(0, x.shape[1], 8)], 1)
    y: Tensor = 3.0 * sums * inputs["gain"].double()[:, None]
    return y


def draw(batch: int, width: int, gains: int | None = None) -> Inputs:
    return {"x": torch.randn(batch, width), "gain": torch.randn(batch if gains is None else gains)}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("aot")
    (folder / "toycore.py").write_text(TOY)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def runner(home: Path) -> AotRunner:
    """The one that is compiled."""
    made: Any = VARIANTS["aot-inductor"].build(toy_blueprint(home / "cache"))
    assert isinstance(made, AotRunner)
    return made


def run(runner: Any, inputs: Inputs) -> Tensor:
    (y,) = runner.outputs(runner.run(runner.prepare(inputs)))
    assert isinstance(y, Tensor)
    return y


@pytest.mark.parametrize(("batch", "width"), [(1, 16), (3, 24), (8, 64), (5, 40)])
def test_one_package_serves_every_legal_shape_one_too(runner: AotRunner, batch: int, width: int) -> None:
    inputs = draw(batch, width)
    torch.testing.assert_close(run(runner, inputs).double(), by_hand(inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (draw(9, 16), "too large at 0, expected to be <= 8, but got: 9"),
        (draw(3, 72), "too large at 1, expected to be <= 64, but got: 72"),
        (draw(3, 8), "too small at 1, expected it to be >= 16, but got: 8"),
        (draw(3, 20), "expected size 20==16"),
        (draw(3, 16, gains=4), "expected size 4==3"),
        ({"x": torch.ones(3, 16, dtype=torch.int64), "gain": torch.ones(3)}, "unmatched dtype"),
    ],
)
def test_what_the_package_was_not_made_for_is_an_error(runner: AotRunner, inputs: Inputs, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        runner.run(dict(inputs))


def test_without_the_check_a_wrong_batch_would_run(runner: AotRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check is for, and that it is read once a loaded package, at its first call."""
    unchecked = torch._inductor.aoti_load_package(str(runner.package))
    monkeypatch.delenv(CHECK_INPUTS, raising=False)
    assert unchecked(**draw(9, 16)).shape == (9, 2)
    with checked_inputs():
        assert unchecked(**draw(9, 16)).shape == (9, 2)
    assert CHECK_INPUTS not in os.environ


def test_the_environment_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHECK_INPUTS, "0")
    with checked_inputs():
        assert os.environ[CHECK_INPUTS] == "1"
    assert os.environ[CHECK_INPUTS] == "0"


def test_its_size_and_name_are_told(runner: AotRunner, home: Path) -> None:
    assert runner.counters() == {"bytes_on_disk": (runner.package).stat().st_size}
    assert runner.notes() == {"package": runner.package.parent.name}
    assert runner.package.is_relative_to(home / "cache" / "aot")


def elsewhere(home: Path, threads: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(home / "cache"), str(threads)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{home}"}
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, cwd=home)


def test_another_process_takes_the_package_and_compiles_nothing(runner: AotRunner, home: Path) -> None:
    same = elsewhere(home, torch.get_num_threads())
    assert same.stdout.splitlines()[-1:] == [str(runner.package)], same.stderr


def key(cache: Path, module: nn.Module | None = None, dtype: str = "float32") -> str:
    plan = toy_blueprint(cache)
    return aot_package._key(plan, module or plan.module(dtype), example(plan.core, plan.preset), dtype)


def test_its_name_is_the_same_after_a_package_was_compiled(runner: AotRunner, home: Path) -> None:
    """Else of a run's packages only the first of each process would be found again."""
    assert runner.package.parent.name == f"toy-tiny-{key(home / 'cache')[:24]}"


def test_what_decides_the_code_is_in_the_name(runner: AotRunner, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, dtype, threads (Inductor's loops have their number in them), processor, Inductor's settings, torch."""
    heavier = toy_blueprint(home).module("float32")
    heavier.weight.data = torch.tensor(3.5)
    found = [key(home), key(home, heavier), key(home, dtype="bfloat16")]
    with torch._inductor.config.patch(max_autotune=True):
        found.append(key(home))
    for target, value in (
        ("torch.get_num_threads", 97),
        ("torch.cpu.get_capabilities", {"architecture": "other"}),
        ("perf.backends.aot_package.library_versions", ["torch 0"]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, lambda *_, value=value: value)
            found.append(key(home))
    assert len({*found}) == len(found) == 7
    assert key(home) == found[0] == found[0].lower()


def test_a_build_that_fails_leaves_nothing(runner: AotRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(program: Any, *, package_path: str) -> None:
        Path(package_path).write_text("half a package")
        raise RuntimeError("the compiler crashed")

    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", fails)
    with pytest.raises(RuntimeError, match="the compiler crashed"):
        VARIANTS["aot-inductor"].build(toy_blueprint(tmp_path))
    assert [path.suffix for path in (tmp_path / "aot").iterdir()] == [".lock"]


def test_a_package_that_kills_who_loads_it_ends_no_run(
    runner: AotRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiles(program: Any, *, package_path: str) -> None:
        Path(package_path).write_bytes(runner.package.read_bytes())

    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", compiles)
    monkeypatch.setattr(aot_package, "LOADING", "import os; os.kill(os.getpid(), 11)")
    with pytest.raises(RuntimeError, match="AOTInductor compiled does not load: killed by SIGSEGV"):
        VARIANTS["aot-inductor"].build(toy_blueprint(tmp_path))
    assert [path.suffix for path in (tmp_path / "aot").iterdir()] == [".lock"]


def test_loading_is_timed_in_a_process_of_its_own(runner: AotRunner, tmp_path: Path) -> None:
    (way,) = runner.loadings(tmp_path).values()
    found = fresh_load(way.setting_up, way.loading, way.arguments, tmp_path)
    assert found.import_s > 0
    assert found.load_s > 0
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(b"no package")
    with pytest.raises(RuntimeError, match=r"broken\.pt2 does not load"):
        fresh_load(way.setting_up, way.loading, (str(broken), "cpu"), tmp_path)
