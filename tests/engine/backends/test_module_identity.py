"""What makes a module another one, and what does not."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
import torch

from perf.backends import module_identity
from perf.backends.module_identity import digest
from tests.engine.onnx_toys import Mlp, seeded


class Scaled(Mlp):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self.gain = gain


class Configured(Mlp):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.config = type("Config", (), {})()
        self.config.epsilon = epsilon


def test_a_setting_that_is_no_weight_is_part_of_a_module() -> None:
    for kind in (Scaled, Configured):
        one, same, other = (digest(seeded(partial(kind, value))) for value in (1e-5, 1e-5, 2e-5))
        assert one == same != other


def test_a_module_is_the_same_on_every_call_and_another_with_one_bit_changed() -> None:
    module = seeded(Mlp)
    before = digest(module)
    assert digest(seeded(Mlp)) == before
    module.get_parameter("second.bias").view(torch.int32)[0] ^= 1
    assert digest(module) != before


def test_old_style_hooks_and_addresses_make_no_difference() -> None:
    module = seeded(Mlp)
    before = digest(module)
    module.register_forward_hook(lambda *_: None)
    assert digest(module) == before


def test_the_code_that_forward_reaches_is_part_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own file, and that of a function it imports."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "helper_of_mine.py").write_text("def twice(x):\n    return x * 2.0\n")
    text = """
        import torch
        from helper_of_mine import twice
        class Net(torch.nn.Module):
            def forward(self, x):
                return twice(x) + 1.0
        """
    (tmp_path / "net_of_mine.py").write_text(dedent(text))
    before = digest(imported("net_of_mine").Net())
    assert digest(imported("net_of_mine").Net()) == before
    (tmp_path / "helper_of_mine.py").write_text("def twice(x):\n    return x * 3.0\n")
    helped = digest(imported("net_of_mine").Net())
    (tmp_path / "net_of_mine.py").write_text(dedent(text).replace("1.0", "4.0"))
    assert len({before, helped, digest(imported("net_of_mine").Net())}) == 3


def test_a_file_that_is_none_and_torch_wherever_it_was_built_are_no_code_of_a_modules_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, odd = ModuleType("built_of_mine"), ModuleType("odd_of_mine")
    built.__file__, odd.__file__ = str(tmp_path / "torch.py"), "_classes.py"  # as `torch.classes` names its own
    odd.__dict__["library"] = built
    for module in (built, odd):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(module_identity, "_TORCH", tmp_path)
    (tmp_path / "torch.py").write_text("version = 1")
    net = type("Net", (torch.nn.Module,), {"__module__": "odd_of_mine"})()
    before = digest(net)
    (tmp_path / "torch.py").write_text("version = 2")
    assert digest(net) == before


def imported(name: str) -> ModuleType:
    """Once: a digest reads the files as they are now."""
    return sys.modules.get(name) or import_module(name)
