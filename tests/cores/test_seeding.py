"""Seeded weights against what defines them: counts of products, statistics of what layers really put out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fixtures.seeding import (
    calibrate_,
    channel_statistics,
    fan_in,
    initialise_,
    on_cpu,
    seeded,
    seeded_generators,
    standardise_,
)


def small() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 1))


def picture(seed: int = 0) -> torch.Tensor:
    return 3.0 + 2.0 * torch.randn(4, 3, 20, 24, generator=torch.Generator().manual_seed(seed))


def test_the_seed_decides_the_weights_and_the_callers_generator_is_left_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    states = [seeded(small, seed, example={"input": picture()}, output="3").state_dict() for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert not any(
        torch.equal(states[0][key], states[2][key]) for key in states[0] if states[0][key].dtype.is_floating_point
    )


def test_a_seeded_module_is_in_eval_mode_without_gradients() -> None:
    module = seeded(small)
    assert not module.training
    assert not any(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(6, 4, bias=False), (1, 6)),
        (nn.Conv2d(6, 4, 3, groups=2, bias=False), (1, 6, 9, 9)),
        (nn.Conv1d(6, 6, 5, groups=6, bias=False), (1, 6, 20)),
        (nn.ConvTranspose1d(6, 4, 8, stride=4, bias=False), (1, 6, 20)),
        (nn.ConvTranspose2d(6, 4, 4, stride=2, groups=2, bias=False), (1, 6, 12, 12)),
    ],
)
def test_fan_in_counts_the_products_in_one_output(layer: nn.Linear | nn.Conv2d, shape: tuple[int, ...]) -> None:
    nn.init.ones_(layer.weight)
    output = layer(torch.ones(shape))
    middle = output[(..., *(size // 2 for size in output.shape[2:]))] if output.dim() > 2 else output
    assert torch.equal(middle, torch.full_like(middle, fan_in(layer)))


def test_weights_preserve_the_second_moment_through_relu_layers() -> None:
    layers = [part for _ in range(20) for part in (nn.Linear(256, 256, bias=False), nn.ReLU())]
    module = nn.Sequential(*layers)
    with seeded_generators(0):
        initialise_(module)
        x = torch.randn(64, 256)
    with torch.no_grad():
        moment = module(x).square().mean().item()  # He et al.: E[x²] stays, up to the luck of twenty finite layers
    assert 0.3 < moment / x.square().mean().item() < 3.0


def test_norms_are_not_left_as_the_identity() -> None:
    for norm in (nn.BatchNorm2d(64), nn.GroupNorm(4, 64), nn.LayerNorm(64)):
        initialise_(norm)
        assert norm.weight.min() >= 0.5
        assert norm.weight.max() <= 1.5
        assert norm.weight.std() > 0.1
        assert norm.bias.std() > 0.03


def test_calibrated_batch_norms_put_out_mean_0_and_deviation_1() -> None:
    module = small().eval()
    module[1] = nn.BatchNorm2d(8).eval()  # scale 1, shift 0
    calibrate_(module, {"input": picture()})
    with torch.no_grad():
        seen = module[1](module[0](picture()))
    assert torch.allclose(seen.mean(dim=(0, 2, 3)), torch.zeros(8), atol=1e-4)
    assert torch.allclose(seen.std(dim=(0, 2, 3)), torch.ones(8), atol=1e-3)


def test_two_values_a_channel_are_no_statistics() -> None:
    x = torch.tensor([[1.0, 5.0], [2.0, 6.0]]).reshape(2, 2, 1, 1)
    mean, variance = channel_statistics(x, axis=1)
    assert torch.equal(mean, torch.tensor([3.5, 3.5]))
    assert torch.allclose(variance, torch.tensor([4.25, 4.25]))


def test_a_constant_channel_gets_no_tiny_variance() -> None:
    x = torch.stack([torch.zeros(32), torch.linspace(-1, 1, 32)])
    variance = channel_statistics(x, axis=0)[1]
    assert variance[0] == pytest.approx(0.01 * x[1].var(correction=0).item() / 2, rel=1e-4)


@pytest.mark.parametrize("axis", [1, -1])
def test_a_standardised_layer_puts_out_mean_0_and_deviation_1_a_channel(axis: int) -> None:
    last: nn.Module = nn.Conv2d(8, 5, 1) if axis == 1 else nn.Linear(24, 5)
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), last).eval()
    standardise_(module, "2", {"input": picture()})
    with torch.no_grad():
        rows = module(picture()).movedim(axis, 0).flatten(1)
    assert torch.allclose(rows.mean(1), torch.zeros(5), atol=1e-4)
    assert torch.allclose(rows.std(1), torch.ones(5), atol=1e-3)


def test_only_linear_and_convolution_layers_can_be_standardised() -> None:
    with pytest.raises(TypeError, match="cannot standardise '2', a ReLU: name a linear or convolution layer"):
        standardise_(small(), "2", {"input": picture()})


def test_a_layer_that_does_not_run_cannot_be_standardised() -> None:
    module = nn.Module()
    module.idle = nn.Linear(3, 3)
    module.forward = lambda input: input
    with pytest.raises(ValueError, match="did not run in forward"):
        standardise_(module, "idle", {"input": torch.ones(3)})


def test_factors_scale_the_parameters_they_end() -> None:
    plain, scaled = seeded(small).state_dict(), seeded(small, factors={"1.weight": 0.25, ".bias": 2.0}).state_dict()
    wanted = {"0.weight": 1.0, "0.bias": 2.0, "1.weight": 0.25, "1.bias": 2.0, "3.weight": 1.0, "3.bias": 2.0}
    assert all(torch.equal(scaled[key], factor * plain[key]) for key, factor in wanted.items())


def test_a_factor_for_no_parameter_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no parameter's name ends in 'bn3\.weight'"):
        seeded(small, factors={"bn3.weight": 0.25})


def test_the_gain_scales_weights() -> None:
    layer = nn.Linear(400, 300)
    with seeded_generators(0):
        initialise_(layer, gain=3.0)
    assert layer.weight.std().item() == pytest.approx(3.0 / math.sqrt(400), rel=0.02)


@pytest.mark.parametrize(("device", "made_on"), [("cpu", "cpu"), ("meta", "meta")])
def test_what_is_calibrated_is_made_where_examples_are_unless_it_has_no_values(device: str, made_on: str) -> None:
    with torch.device(device), on_cpu():
        norm = seeded(lambda: nn.Sequential(nn.BatchNorm2d(3)), example={"input": picture()})
    assert {tensor.device.type for tensor in (*norm.parameters(), *norm.buffers())} == {made_on}
