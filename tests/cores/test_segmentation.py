"""DeepLabV3, U-Net and BiSeNet V2 against torchvision, the paper's sizes, torch's FLOP counter, and counted masks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import pytest
import torch
from torch import nn

from fixtures.cores import bisenet, segmentation, unet
from fixtures.image_cores import image_inputs, image_shape
from fixtures.models.bisenetv2 import BiSeNetV2, BiSeNetV2Config, GuidedAggregation
from fixtures.seeding import initialise_
from fixtures.tasks_masks import mask_iou
from perf.contract import Core

CORES = {core.name: core for core in (*segmentation.CORES, *unet.CORES, *bisenet.CORES)}


@cache
def built(core: str, preset: str) -> nn.Module:
    """Built once for all tests, which leave it as it is."""
    return CORES[core].presets[preset].build()


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(params=CORES)
def core(request: pytest.FixtureRequest) -> Core:
    return CORES[request.param]


def test_logits_have_the_size_of_the_image_and_every_shape_a_varied_mask(core: Core) -> None:
    preset = core.presets["tiny"]
    module = built(core.name, "tiny")
    for shape in preset.shapes:
        logits = module(**preset.inputs(shape, 1))
        assert logits.shape[0] == shape["batch"]
        assert logits.shape[2:] == (shape["height"], shape["width"])
        classes = logits.argmax(1).flatten().bincount(minlength=logits.shape[1])
        assert (classes > 0).sum() >= 0.75 * logits.shape[1]  # a constant mask would agree with any other


def test_the_published_configuration_also_spreads(core: Core) -> None:
    preset = core.presets["full"]
    small = image_shape("", height=128, width=160, batch=2)
    logits = built(core.name, "full")(**preset.inputs(small, 1))
    assert 0.3 < logits.std().item() < 3.0


def test_deeplab_is_torchvisions_own() -> None:
    from torchvision.models.segmentation import deeplabv3_resnet50

    ours = built("deeplabv3", "full")
    theirs = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21).eval()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    image = image_inputs(image_shape("", height=96, width=72, batch=1), 5)["image"]
    assert torch.equal(ours(image), theirs(image)["out"])


def test_uncalibrated_the_image_pooling_adds_up_more_than_float16_holds() -> None:
    """What ONNX Runtime's ReduceMean overflows over, on CUDA; calibrated, the same sums stay below."""
    presets = segmentation.CORES[0].presets
    largest = {name: _largest_pooled_sum(presets[name].build()) for name in ("full", "full-uncalibrated")}
    assert largest["full-uncalibrated"] > torch.finfo(torch.float16).max > largest["full"]


@torch.no_grad()
def _largest_pooled_sum(module: nn.Module) -> float:
    """Over the positions of the map that the head pools, of any channel, at 512 pixels."""
    seen: list[torch.Tensor] = []
    module.get_submodule("classifier.0.convs.4").register_forward_pre_hook(lambda _layer, args: seen.append(args[0]))
    module(**image_inputs(image_shape("", height=512, width=512, batch=1), 1))
    return seen[0].double().sum(dim=(2, 3)).abs().max().item()


def test_unet_loads_the_packages_default() -> None:
    from segmentation_models_pytorch import Unet

    theirs = Unet(encoder_weights=None, classes=21).eval()
    ours = built("unet", "full")
    theirs.load_state_dict(ours.state_dict(), strict=True)
    x = image_inputs(image_shape("", height=64, width=96, batch=1), 5, "x")["x"]
    assert torch.equal(ours(x), theirs(x))


def test_bisenet_has_the_sizes_of_table_1() -> None:
    with torch.device("meta"):
        net = BiSeNetV2(BiSeNetV2Config()).eval()
        image = torch.empty(1, 3, 512, 1024)
        assert net.detail[1](net.detail[0](image)).shape == (1, 64, 256, 512)
        assert net.detail(image).shape == (1, 128, 64, 128)
        stem, *stages, context = net.semantic
        sizes = [stem(image)]
        for stage in stages:
            sizes.append(stage(sizes[-1]))
        assert sizes[0].shape == (1, 16, 128, 256)
        assert [tuple(size.shape[1:]) for size in sizes[1:]] == [
            *[(32, 64, 128)] * 2,
            *[(64, 32, 64)] * 2,
            *[(128, 16, 32)] * 4,
        ]
        assert context(sizes[-1]).shape == (1, 128, 16, 32)
        assert net(image).shape == (1, 19, 512, 1024)


def test_bisenets_detail_branch_has_the_parameters_of_table_1() -> None:
    convolutions = 9 * (3 * 64 + 64 * 64 + 3 * 64 * 64 + 64 * 128 + 2 * 128 * 128)
    norms = 2 * (5 * 64 + 3 * 128)
    detail = BiSeNetV2(BiSeNetV2Config()).detail
    assert sum(parameter.numel() for parameter in detail.parameters()) == convolutions + norms


def test_guided_aggregation_gates_each_branch_by_the_other() -> None:
    """With pass-through layers and a semantic gate of σ(0) = 1/2, a flat detail map d and semantic map 0 merge to
    d/2 (fine) + d/2 (coarse): σ(0) · d twice, in the middle, away from padding.
    """
    merge = GuidedAggregation(width=4).eval()
    for convolution in (layer for layer in merge.modules() if isinstance(layer, nn.Conv2d)):
        centre = convolution.kernel_size[0] // 2
        nn.init.zeros_(convolution.weight)
        for channel in range(4):
            source = 0 if convolution.groups == 4 else channel
            convolution.weight[channel, source, centre, centre] = 1.0
    merged = merge(torch.full((1, 4, 32, 32), 3.0), torch.zeros(1, 4, 8, 8))
    assert torch.allclose(merged[..., 14:18, 14:18], torch.tensor(3.0), rtol=1e-4)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (70, 91), (127, 65)])
def test_bisenet_takes_any_size(height: int, width: int) -> None:
    net = BiSeNetV2(bisenet.NARROW).eval()
    initialise_(net)
    assert net(torch.rand(1, 3, height, width)).shape == (1, 19, height, width)


def one_hot(mask: list[list[int]], classes: int) -> torch.Tensor:
    """Logits [1, classes, height, width] whose argmax is `mask`."""
    return nn.functional.one_hot(torch.tensor(mask), classes).permute(2, 0, 1)[None].float()


def test_iou_of_counted_masks() -> None:
    reference = one_hot([[0, 0, 1], [0, 1, 1]], classes=4)
    output = one_hot([[0, 0, 0], [0, 1, 2]], classes=4)
    # class 0: 3 of 4; class 1: 1 of 3; class 2: 0 of 1; class 3 occurs in neither and does not count
    assert mask_iou((reference,), (output,)) == pytest.approx((3 / 4 + 1 / 3 + 0) / 3)
    assert mask_iou((reference,), (reference,)) == 1.0
    assert mask_iou((reference,), (7.0 * reference - 2.0,)) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_iou_of_logits_that_are_not_finite_is_0(bad: float) -> None:
    reference = one_hot([[0, 1], [1, 0]], classes=2)
    output = reference.clone()
    output[0, 0, 0, 0] = bad
    assert mask_iou((reference,), (output,)) == 0.0
