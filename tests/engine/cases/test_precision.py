"""What is named fp32 is never rounded to TF32, whatever torch allows by itself; what is named tf32 is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from perf.backends.torch_compile import wrapped
from perf.catalogue import Catalogue, discover
from perf.contract import Case, Core, Inputs, Preset, Shape, Work
from perf.precision import tf32
from perf.variants.compiled import RoundedRunner
from perf.workbench import Workbench
from tests.engine.onnx_toys import blueprint

ALLOWED: list[tuple[bool, bool]] = []


class Witness(nn.Module):
    """Notes at every call what is allowed."""

    def forward(self, x: Tensor) -> Tensor:
        ALLOWED.append((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))
        return x + 1.0


def inputs(shape: Shape, seed: int) -> Inputs:
    return {"x": torch.randn(3, generator=torch.Generator().manual_seed(seed))}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    preset = Preset(Witness, inputs, (Shape("s", {}),))
    core = Core("witness", "a toy", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 3))
    variants = discover([], [], tmp_path).variants
    yield Workbench(Catalogue({"witness": core}, variants), 0, tmp_path, tmp_path)
    ALLOWED.clear()


@pytest.mark.parametrize(("variant", "timed"), [("eager-fp32", (False, False)), ("eager-tf32", (True, True))])
def test_reference_limit_and_variant_see_what_their_names_say(
    bench: Workbench, variant: str, timed: tuple[bool, bool]
) -> None:
    case = Case("witness", "tiny", variant, "s", "cpu")
    with tf32(allowed=True):
        assert bench.parity(case).ok
        assert set(ALLOWED[:4]) == {(False, False)}, "the reference twice, eager twice"
        assert set(ALLOWED[4:]) == {timed}
        bench.built(case).runner.run(bench.prepared(case))
        assert ALLOWED[-1] == timed
        bench.close()
        assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (True, True)


def test_a_compiled_variant_rounds_while_it_runs_and_no_longer(tmp_path: Path) -> None:
    """Not compiled here: what the module notes in Python would be gone from its graph."""
    plan = blueprint(tmp_path, Witness, inputs=inputs)
    runner = RoundedRunner(plan, "float32", wrapped, {"backend": "eager", "disable": True})
    with tf32(allowed=False):
        runner.run(runner.prepare(plan.example(0)))
        assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (False, False)
    assert ALLOWED == [(True, True)]
    runner.close()
    ALLOWED.clear()


def test_what_is_rounded_is_judged_and_limited_as_such() -> None:
    variants = discover([], [], Path()).variants
    rounded = [variant for name, variant in variants.items() if "tf32" in name]
    assert len(rounded) == 4
    assert {(variant.lossy, variant.products) for variant in rounded} == {(True, "tf32")}
