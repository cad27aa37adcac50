"""A second project, as a user has it: a folder of cores, one line of configuration, coregate from the environment."""

from __future__ import annotations

import signal
from textwrap import dedent

import pytest

TOY = """
import time
import torch
from perf.contract import Axis, Core, Preset, Shape, Task, Work


class Toy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 7)

    def forward(self, x):
        {before}
        hidden = self.first(x).relu()
        {between}
        return self.second(hidden)


def inputs(shape, seed):
    return {{"x": torch.randn(shape["batch"], 16, generator=torch.Generator().manual_seed(seed))}}


SHAPES = (Shape("b5", {{"batch": 5}}), Shape("b9", {{"batch": 9}}))
CORES = [
    Core(
        name="{name}",
        system="a toy",
        source="here",
        presets={{"tiny": Preset(lambda: Toy().eval(), inputs, SHAPES)}},
        outputs=("y",),
        work=lambda shape: Work("rows", shape["batch"]),
        dynamic={{"x": {{0: Axis("batch", 2, 64)}}}},
        budgets=dict.fromkeys(("cpu_s", "host_instructions", "rss_peak_bytes"), float("inf")),
    )
]
"""
"""Its budgets leave the latency alone: that is where these tests plant."""

ALONE = """
    \"\"\"Other tests may run beside this one: no time here is called disturbed. Controls and ceilings are small and
    soon measured: what these tests plant is larger than what they show, and some hundred runs measure them.\"\"\"
    from dataclasses import replace
    from importlib import import_module

    processor = import_module("perf.measure.processor")  # the package's attribute may be a run's before
    controls = import_module("perf.measure.controls")
    ceilings = import_module("perf.measure.ceilings")
    SHARE = None
    SOON_S = 0.01
    KEPT = processor.ProcessorWatch.share, processor.others_busy, controls.SIZES["cpu"], controls.WARM
    FASTEST_S = ceilings.fastest_s


    def pytest_configure():
        controls.SIZES["cpu"] = replace(KEPT[2], matmul=64, copy_bytes=1 << 20, max_s=SOON_S)
        controls.WARM = replace(KEPT[3], max_s=SOON_S)
        ceilings.fastest_s = lambda *asked: FASTEST_S(*asked[:-1], min(asked[-1], SOON_S))
        processor.ProcessorWatch.share = lambda self: SHARE
        processor.others_busy = lambda: {} if SHARE is None else {processor.WAITED: str(SHARE)}


    def pytest_unconfigure():
        processor.ProcessorWatch.share, processor.others_busy, controls.SIZES["cpu"], controls.WARM = KEPT
        ceilings.fastest_s = FASTEST_S
"""


class Project:
    """`core(...)` writes mycores/toy.py; `run(...)` runs pytest there over the shipped suites."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        options = "addopts = -p alone --import-mode=importlib --device cpu"
        pytester.makepyfile(alone=ALONE)
        pytester.syspathinsert()
        pytester.makefile(".ini", pytest=f"[pytest]\nperf_cores = mycores\n{options}\n")
        self.core()

    def core(self, name: str = "toy", before: str = "pass", between: str = "pass") -> None:
        self.write("mycores/toy.py", TOY.format(name=name, before=before, between=between))

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess("--pyargs", "perf.suites", *arguments)

    def time(self, *arguments: str) -> pytest.RunResult:
        """The latency suite over eager-fp32 alone, with few rounds."""
        quick = ("--benchmark-max-time=0.02", "--benchmark-min-rounds=5", "--variant", "eager-fp32", "--confirm=0")
        return self.pytester.runpytest_inprocess("--pyargs", "perf.suites.test_latency", *quick, *arguments)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell without job control starts what it puts in the background with SIGINT ignored, which children inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def loaded_torch() -> None:
    """pytester forgets the modules that a run imports, and torch's cannot be imported twice in one process:
    all first. And what the processor is, of which each run would ask a process of its own, is asked once."""
    import functools

    import pytest_benchmark.plugin
    import torch._inductor.compile_fx
    import torch._inductor.runtime.autotune_cache

    torch.compile(torch.nn.Linear(2, 2), backend="aot_eager")(torch.ones(3, 2))
    torch._dynamo.reset()
    pytest_benchmark.plugin.get_cpu_info = functools.cache(pytest_benchmark.plugin.get_cpu_info)


@pytest.fixture
def project(loaded_torch: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("COLUMNS", "250")
    return Project(pytester)
