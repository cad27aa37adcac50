"""Style-Bert-VITS2's parts beside definitions written another way: loops, numpy in float64, torch's own, by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from fixtures.cores.style_bert_vits2 import CORES, build
from fixtures.models.sbv2 import spline
from fixtures.models.sbv2.attention import RelativeAttention
from fixtures.models.sbv2.config import TINY_JP_EXTRA, Config, bucket
from fixtures.models.sbv2.initialise import randomise
from fixtures.models.sbv2.synthesizer import Decode, EncodeJapanese, Generator, expand, regulate
from fixtures.models.sbv2.weight_norm import NormedConv, NormedConvTranspose
from perf.contract import Core, Inputs

BY_NAME = {core.name: core for core in CORES}
Array = NDArray[np.float64]


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def drawn(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def forward_spline(x: float, widths: Array, heights: Array, slopes: Array) -> float:
    """Durkan et al. 2019, eq. 4, from normalised bins: the spline whose inverse is under test."""
    left = np.concatenate([[-5.0], -5.0 + np.cumsum(widths)])
    low = np.concatenate([[-5.0], -5.0 + np.cumsum(heights)])
    k = int(np.searchsorted(left, x, side="right")) - 1
    s, xi = heights[k] / widths[k], (x - left[k]) / widths[k]
    top = heights[k] * (s * xi**2 + slopes[k] * xi * (1 - xi))
    return float(low[k] + top / (s + (slopes[k + 1] + slopes[k] - 2 * s) * xi * (1 - xi)))


def shares(logits: Array) -> Array:
    powers = np.exp(logits)
    return np.asarray(10.0 * (1e-3 + (1 - 1e-2) * powers / powers.sum()))


def test_the_inverse_spline_undoes_the_spline() -> None:
    y = torch.linspace(-4.99, 4.99, 50, dtype=torch.float64)
    logits = [2 * drawn(50, bins, seed=bins).double() for bins in (10, 10, 9)]
    x = spline.inverse_spline(y, *logits)
    for row in range(50):
        widths, heights = (shares(part[row].numpy()) for part in logits[:2])
        slopes = np.concatenate([[1.0], 1e-3 + np.log1p(np.exp(logits[2][row].numpy())), [1.0]])
        assert forward_spline(float(x[row]), widths, heights, slopes) == pytest.approx(float(y[row]), abs=1e-9)


def test_the_spline_is_the_identity_outside_its_bounds_and_finite_in_half_precision() -> None:
    y = torch.tensor([-7.5, -5.0, 5.0, 123.0])
    x = spline.inverse_spline(y, drawn(4, 10), drawn(4, 10, seed=1), drawn(4, 9, seed=2))
    torch.testing.assert_close(x, y, rtol=0, atol=2e-6)
    half = [(4 * drawn(200, bins, seed=bins)).half() for bins in (10, 10, 9)]
    assert bool(spline.inverse_spline(torch.linspace(-5, 5, 200).half(), *half).isfinite().all())


@pytest.mark.parametrize("length", [1, 3, 20])
def test_attention_is_the_sum_over_keys_with_terms_for_near_offsets(length: int) -> None:
    heads, width, window = 2, 6, 4
    attend = randomise(RelativeAttention(heads * width, heads, window), TINY_JP_EXTRA).double()
    x, mask = drawn(1, heads * width, length).double(), torch.ones(1, 1, length).double()
    q, k, v = (conv(x)[0].view(heads, width, length) for conv in (attend.conv_q, attend.conv_k, attend.conv_v))
    mixed = torch.zeros(heads, width, length).double()
    for head in range(heads):
        for i in range(length):
            near = [j - i + window if abs(j - i) <= window else None for j in range(length)]
            keys = [k[head, :, j] + (attend.emb_rel_k[0, r] if r is not None else 0) for j, r in enumerate(near)]
            values = [v[head, :, j] + (attend.emb_rel_v[0, r] if r is not None else 0) for j, r in enumerate(near)]
            weights = torch.stack([q[head, :, i] @ key / math.sqrt(width) for key in keys]).softmax(0)
            mixed[head, :, i] = sum(weight * value for weight, value in zip(weights, values, strict=True))
    expected = attend.conv_o(mixed.reshape(1, heads * width, length))
    torch.testing.assert_close(attend(x, mask), expected, rtol=0, atol=1e-12)


def cut(inputs: Inputs, core: Core, row: int, length: int) -> dict[str, Tensor]:
    """One row of a batch, without its padding."""
    rows = {name: value[row : row + 1] for name, value in inputs.items()}
    return {
        name: value.narrow(next(iter(core.dynamic[name])), 0, length) if name in core.dynamic else value
        for name, value in rows.items()
    }


@pytest.mark.parametrize("core_name", ["sbv2-jp-enc", "sbv2-ml-enc"])
def test_encoding_does_not_hear_the_padding(core_name: str) -> None:
    core = BY_NAME[core_name]
    preset = core.presets["tiny"]
    module, inputs = preset.build(), preset.inputs(preset.shapes[0], 3)
    padded = module(**inputs)
    for row, length in enumerate(inputs["lengths"].tolist()):
        alone = module(**cut(inputs, core, row, length))
        for name, got, expected in zip(core.outputs, padded, alone, strict=True):
            span = expected.shape[2]
            limit = 5e-5 if name == "durations" else 5e-6  # three splines and an exponential blow rounding up
            assert (got[row, :, :span] - expected[0]).abs().max() <= limit
            assert span == 1 or got[row, :, span:].abs().sum() == 0


@pytest.mark.parametrize("preset_name", ["tiny", "tiny-weightnorm"])
def test_decoding_does_not_hear_the_padding(preset_name: str) -> None:
    core = BY_NAME["sbv2-jp-dec"]
    preset = core.presets[preset_name]
    module, inputs = preset.build(), preset.inputs(preset.shapes[0], 3)
    padded = module(**inputs)
    for row, frames in enumerate(inputs["mask"].sum((1, 2)).int().tolist()):
        alone = module(**cut(inputs, core, row, frames))
        samples = alone.shape[2]
        assert samples == frames * TINY_JP_EXTRA.hop
        assert (padded[row, :, :samples] - alone[0]).abs().max() <= 2e-6
        assert padded[row, :, samples:].abs().sum() == 0


def test_the_length_regulator_repeats_each_token_for_its_rounded_up_frames() -> None:
    m = torch.tensor([[[1.0, 2.0, 3.0, 9.0]], [[4.0, 5.0, 9.0, 9.0]]])
    durations = torch.tensor([[[1.2, 0.4, 3.0, 0.0]], [[1.0, 0.01, 0.0, 0.0]]])
    held, logs, mask = regulate(m, -m, durations, most=40)
    assert held.shape == (2, 1, 16)  # 6 frames, and the smallest bucket
    assert held[0, 0].tolist() == [1, 1, 2, 3, 3, 3] + [0] * 10
    assert held[1, 0].tolist() == [4, 5] + [0] * 14
    assert torch.equal(logs, -held)
    assert mask.sum((1, 2)).tolist() == [6, 2]
    with pytest.raises(ValueError, match="6 frames are needed, noise is there for 5"):
        regulate(m, -m, durations, most=5)


def test_a_row_of_no_frames_still_has_one() -> None:
    assert expand(torch.ones(1, 2, 3), torch.ones(1, 2, 3), torch.zeros(1, 3).long(), 4)[2].sum() == 1


def test_the_generator_is_its_parts_with_the_regulator_between() -> None:
    core = BY_NAME["sbv2-jp-netg"]
    encode, decode = (BY_NAME[name].presets["tiny"].build() for name in ("sbv2-jp-enc", "sbv2-jp-dec"))
    inputs = dict(core.presets["tiny"].inputs(core.presets["tiny"].shapes[0], 2))
    whole = core.presets["tiny"].build()(**inputs)
    noise = inputs.pop("noise")
    m, logs, durations, g = encode(**inputs)
    m, logs, mask = regulate(m, logs, durations, noise.shape[1])
    audio = decode(m, logs, noise[:, : m.shape[2]], mask, g)
    assert torch.equal(whole[..., : audio.shape[2]], audio)
    assert whole[..., audio.shape[2] :].abs().sum() == 0


@pytest.mark.parametrize(
    ("length", "padded"), [(1, 16), (16, 16), (17, 20), (59, 64), (65, 80), (514, 640), (1024, 1024), (1025, 1280)]
)
def test_buckets_are_four_an_octave(length: int, padded: int) -> None:
    assert bucket(length) == padded


def test_weight_norm_is_torchs() -> None:
    x = drawn(2, 6, 30)
    for plain, ours in (
        (nn.Conv1d(6, 8, 5, padding=4, dilation=2), NormedConv),
        (nn.ConvTranspose1d(6, 4, 8, 4, padding=2), NormedConvTranspose),
    ):
        normed = ours(plain)
        normed.weight_g.mul_(1.5)
        theirs = weight_norm(plain)
        theirs.parametrizations.weight.original0.mul_(1.5)
        torch.testing.assert_close(normed(x), theirs(x))
        torch.testing.assert_close(normed.folded()(x), normed(x), rtol=0, atol=0)


def test_folding_weight_norm_changes_no_bit() -> None:
    presets = BY_NAME["sbv2-jp-dec"].presets
    kept, folded = presets["tiny-weightnorm"], presets["tiny"]
    inputs = folded.inputs(folded.shapes[0], 0)
    assert any(name.endswith("weight_g") for name in kept.build().state_dict())
    assert not any(name.endswith("weight_g") for name in folded.build().state_dict())
    assert torch.equal(kept.build()(**inputs), folded.build()(**inputs))


def checkpoint(config: Config, seed: int) -> dict[str, Tensor]:
    """As published: the generator, the posterior encoder it was trained with, and a step count."""
    state = randomise(Generator(config), config, seed).state_dict()
    return {**state, "enc_q.pre.weight": torch.ones(3), "iteration": torch.tensor([7])}


@pytest.mark.parametrize("part", [EncodeJapanese, Decode, Generator])
@pytest.mark.parametrize("fold", [True, False])
def test_every_part_loads_a_whole_checkpoint_strictly(part: type[nn.Module], fold: bool) -> None:
    one_speaker = replace(TINY_JP_EXTRA, speakers=1)
    state = checkpoint(one_speaker, seed=5)
    module = build(part, TINY_JP_EXTRA, fold)
    module.load_state_dict(state, strict=True)
    source = randomise(Generator(one_speaker), one_speaker, seed=5).state_dict()
    loaded = module.state_dict()
    assert all(torch.equal(loaded[name], source[name]) for name in loaded if name in source)
    assert part is Decode or loaded["emb_g.weight"].shape == (1, one_speaker.gin)
    if fold and part is not EncodeJapanese:
        expected = build(part, one_speaker, fold=False)
        expected.load_state_dict(state)
        assert torch.equal(loaded["dec.ups.0.weight"], expected.dec.ups[0].weight())  # type: ignore[union-attr, index]


def test_a_checkpoint_of_something_else_is_refused() -> None:
    module, state = Generator(TINY_JP_EXTRA), checkpoint(TINY_JP_EXTRA, seed=5)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*dec\.other"):
        module.load_state_dict({**state, "dec.other": torch.ones(1)})
    del state["flow.flows.0.post.bias"]
    with pytest.raises(RuntimeError, match=r"Missing key.*flow\.flows\.0\.post\.bias"):
        module.load_state_dict(state)
    with pytest.raises(RuntimeError, match="size mismatch"):
        module.load_state_dict(checkpoint(replace(TINY_JP_EXTRA, filter=48), seed=5))
