"""A module that is copied is the module that would have been built, and no two share anything."""

from __future__ import annotations

import torch
from torch import nn

from perf.contract import Preset, Shape
from perf.modules import Modules, copied


class Tied(nn.Module):
    """An output layer that shares its input layer's weight, a buffer, and a counter of how often one was built."""

    built = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).built += 1
        self.first = nn.Linear(3, 3, bias=False)
        self.last = nn.Linear(3, 3, bias=False)
        self.last.weight = self.first.weight
        self.register_buffer("steps", torch.arange(3))
        self.table = torch.full((3,), 0.5)  # neither a parameter nor a buffer


def build() -> nn.Module:
    torch.manual_seed(3)
    return Tied()


PRESET = Preset(build, lambda shape, seed: {"x": torch.ones(1, 3)}, (Shape("one", {}),))


def fresh(modules: Modules, name: str = "tiny", dtype: str = "float32") -> Tied:
    found = modules.fresh("toy", name, PRESET, "cpu", dtype)
    assert isinstance(found, Tied)
    return found


def test_a_preset_is_built_once_and_another_one_anew() -> None:
    modules, before = Modules(), Tied.built
    first, second = fresh(modules), fresh(modules, dtype="bfloat16")
    assert Tied.built == before + 1
    assert (first.first.weight.dtype, second.first.weight.dtype) == (torch.float32, torch.bfloat16)
    torch.testing.assert_close(second.first.weight.float(), first.first.weight, atol=4e-3, rtol=0)
    fresh(modules, "full")
    assert Tied.built == before + 2
    fresh(modules)
    assert Tied.built == before + 3  # one master at a time


def test_what_a_variant_does_to_its_module_stays_there() -> None:
    modules = Modules()
    spoilt = fresh(modules)
    untouched = spoilt.first.weight.clone()
    spoilt.first.weight.zero_()
    spoilt.table.zero_()
    spoilt.steps.zero_()
    spoilt.first = nn.Linear(2, 2)
    again = fresh(modules)
    assert torch.equal(again.first.weight, untouched)
    assert again.table.tolist() == [0.5] * 3
    assert again.steps.tolist() == [0, 1, 2]


def test_tied_weights_stay_tied_and_modes_are_those_of_a_fresh_module() -> None:
    modules = Modules()
    for found in (fresh(modules), fresh(modules)):
        assert found.last.weight is found.first.weight
        assert isinstance(found.first.weight, nn.Parameter)
        assert not found.training
        assert not any(parameter.requires_grad for parameter in found.parameters())


def test_a_module_too_large_to_keep_is_built_each_time() -> None:
    size = 9 * 4 + 3 * 8  # one float32 weight of 3 × 3, three int64 steps
    before = Tied.built
    kept, rebuilt = Modules(largest=size), Modules(largest=size - 1)
    assert torch.equal(fresh(kept).first.weight, fresh(kept).first.weight)
    assert Tied.built == before + 1
    assert torch.equal(fresh(rebuilt).first.weight, fresh(rebuilt).first.weight)
    assert Tied.built == before + 3


def test_a_copy_keeps_gradients_as_they_were() -> None:
    module = build()
    module.first.weight.requires_grad_(False)  # type: ignore[union-attr]
    copy = copied(module, "cpu")
    assert not next(copy.parameters()).requires_grad
    assert next(copy.parameters()).data_ptr() != next(module.parameters()).data_ptr()
