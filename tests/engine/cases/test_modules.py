"""A module that is copied is the module that would have been built, and no two share anything."""

from __future__ import annotations

import threading

import pytest
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


class Weighed(nn.Module):
    """The old weight_norm: its weight is a tensor that a graph made."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.utils.weight_norm(nn.Linear(3, 3))


class Calling(nn.Module):
    """A function of its own that calls the layer by its closure."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.call = lambda x: self.layer(x)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = other = nn.Linear(3, 3)
        self.register_forward_hook(lambda _module, _args, output: other(output))


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lock = nn.Linear(3, 3), threading.Lock()


@pytest.mark.parametrize("kind", [Weighed, Calling, Hooked, Locked])
def test_a_module_that_no_copy_can_stand_for_is_built_each_time(kind: type[nn.Module]) -> None:
    def once_more() -> nn.Module:
        built.append(None)
        return seeded_of(kind)

    built: list[None] = []
    preset = Preset(once_more, lambda shape, seed: {"x": torch.ones(1, 3)}, (Shape("one", {}),))
    modules = Modules()
    first, second = (modules.fresh("toy", "tiny", preset, "cpu", dtype) for dtype in ("float32", "bfloat16"))
    assert len(built) == 3  # the master, and each of both
    wide = dict(first.named_parameters())
    for name, narrow in second.named_parameters():
        assert (wide[name].dtype, narrow.dtype) == (torch.float32, torch.bfloat16)


def seeded_of(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return kind()


def test_what_is_written_on_a_parameter_is_on_its_copy() -> None:
    module = nn.Linear(3, 3)
    module.weight.gain = [2.0]  # type: ignore[assignment]
    copy = copied(module, "cpu")
    assert copy is not None
    assert copy.weight.gain == [2.0]  # type: ignore[union-attr]
    assert copy.weight.gain is not module.weight.gain  # type: ignore[union-attr]


def test_bound_methods_are_of_the_copy() -> None:
    module = nn.Linear(3, 3)
    module.call = module.forward  # type: ignore[assignment]
    copy = copied(module, "cpu")
    assert copy is not None
    assert copy.call.__self__ is copy  # type: ignore[union-attr]


def test_a_copy_keeps_gradients_as_they_were() -> None:
    module = build()
    module.first.weight.requires_grad_(False)  # type: ignore[union-attr]
    copy = copied(module, "cpu")
    assert copy is not None
    assert not next(copy.parameters()).requires_grad
    assert next(copy.parameters()).data_ptr() != next(module.parameters()).data_ptr()
