"""The step by kernels of its own: on a CPU the grouped step; each kernel, and all of it, in Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from fixtures.cores import llasa
from fixtures.models import llasa_attention, llasa_products
from fixtures.models.llasa_fused import LlasaFusedDecode
from fixtures.models.llasa_grouped import LlasaGroupedDecode
from fixtures.models.llasa_lm import random_lm
from fixtures.models.llasa_products import Tile

PRESET = next(core for core in llasa.CORES if core.name == "llasa-decode-fused").presets["tiny"]
TILE = Tile(4, 256, 1)

KERNELS = """
import torch
import torch.nn.functional as F
from fixtures.models.llasa_attention import CHUNK, attend
from fixtures.models.llasa_products import Tile, added_product, normed_gate, normed_product

rows = ROWS
torch.manual_seed(3)
x, residual = torch.randn(rows, 320).half(), torch.randn(rows, 32).half()
weight, scale = torch.randn(32, 320).div(18).half(), torch.rand(320).add(0.5).half()
exact, wide = x.double(), weight.double()
normed = exact * torch.rsqrt(exact.square().mean(dim=1, keepdim=True) + 0.25) * scale.double()
gate, up = (normed @ wide.T).chunk(2, dim=1)
near = dict(rtol=1e-3, atol=1e-3)
for tile in (Tile(4, 1024, 4), Tile(8, 32, 1)):
    torch.testing.assert_close(normed_product(x, weight, scale, 0.25, tile).double(), normed @ wide.T, **near)
    added = exact @ wide.T + residual.double()
    torch.testing.assert_close(added_product(x, weight, residual, tile).double(), added, **near)
    torch.testing.assert_close(normed_gate(x, weight, scale, 0.25, tile).double(), F.silu(gate) * up, **near)

heads, group, width, length = 2, 3, 64, 4 * CHUNK + 5
products = torch.randn(rows, heads * (group + 2), width).half()
key, value = torch.randn(2, rows, heads, length, width).half()
angles = torch.randn(rows, width).cos(), torch.randn(rows, width).sin()
cos, sin = (each[:, None].double() for each in angles)
turning = products[:, : heads * (group + 1)].double()
turned = turning * cos + torch.cat((-turning[..., width // 2 :], turning[..., : width // 2]), dim=-1) * sin
new_key, new_value = turned[:, heads * group :], products[:, heads * (group + 1) :].double()
for filled in (0, 1, CHUNK, CHUNK + 1, length - 1, length):
    position = torch.tensor([filled, length // 2][:rows])
    step = torch.empty(2, rows, heads, width).half()
    found = attend(products.flatten(1), angles, (key, value), position, 0.125, tuple(step))
    for row, place in enumerate(position.tolist()):
        queries = turned[row, : heads * group].unflatten(0, (heads, group))
        keys = torch.cat((key[row, :, :place].double(), new_key[row, :, None]), dim=1)
        values = torch.cat((value[row, :, :place].double(), new_value[row, :, None]), dim=1)
        expected = torch.softmax(queries @ keys.transpose(1, 2) * 0.125, dim=-1) @ values
        torch.testing.assert_close(found[row].double(), expected.flatten(), rtol=3e-3, atol=3e-3)
    torch.testing.assert_close(step[0].double(), new_key, rtol=1e-3, atol=1e-3)
    assert torch.equal(step[1].double(), new_value)
print("all as in float64")
"""
STEP = """
import torch
from transformers import LlamaConfig
from fixtures.models import llasa_fused
from fixtures.models.llasa_grouped import LlasaGroupedDecode

llasa_fused.plain_on_gpu = lambda *tensors: True
torch.manual_seed(3)
sizes = dict(hidden_size=192, intermediate_size=320, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2)
config = LlamaConfig(**sizes, vocab_size=504, initializer_range=0.08)
fused = llasa_fused.LlasaFusedDecode(config).eval().merge_()
grouped = LlasaGroupedDecode(config).eval().merge_()
grouped.load_state_dict(fused.state_dict())
key, value = torch.randn(2, 2, ROWS, 1, 150, 64)
step = (torch.randint(504, (ROWS, 1)), torch.tensor([149, 3][:ROWS]), key, value)
with torch.no_grad():
    expected = grouped.double()(*(x.double() if x.is_floating_point() else x for x in step))
    halves = [x.half() if x.is_floating_point() else x for x in step]
    found = fused.half()(*halves)
    compiled = torch.compile(fused, backend="aot_eager", fullgraph=True)(*halves)
for own, theirs in zip(compiled, found, strict=True):
    assert torch.equal(own, theirs)
for own, theirs in zip(found, expected, strict=True):
    error = (own.double() - theirs).square().mean().sqrt() / theirs.square().mean().sqrt()
    assert error < 3e-3, error
print("all as in float64")
"""


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("script", [KERNELS, STEP], ids=["kernels", "step"])
def test_in_the_interpreter_it_computes_what_torch_does_in_float64(script: str, rows: int) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script.replace("ROWS", str(rows))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip().endswith("all as in float64"), done.stderr[-3000:]


@torch.no_grad()
def test_where_no_tensor_lies_on_a_gpu_it_is_the_grouped_step() -> None:
    inputs = PRESET.inputs(PRESET.shapes[0], 3)
    fused, grouped = (random_lm(kind, "tiny").merge_()(**inputs) for kind in (LlasaFusedDecode, LlasaGroupedDecode))
    for own, theirs in zip(fused, grouped, strict=True):
        assert torch.equal(own, theirs)


@pytest.mark.parametrize(
    ("rows", "size_in", "size_out", "taken"),
    [
        (1, 64, 8, True),
        (2, 3072, 5120, True),
        (0, 64, 8, False),
        (3, 64, 8, False),
        (2, 96, 8, False),
        (2, 64, 12, False),
    ],
)
def test_products_have_kernels_for_one_row_or_two_of_whole_blocks(
    rows: int, size_in: int, size_out: int, taken: bool
) -> None:
    assert llasa_products.takes(rows, size_in, size_out) is taken
    x, weight, residual = torch.zeros(rows, size_in), torch.zeros(size_out, size_in), torch.zeros(rows, size_out)
    if not taken:
        with pytest.raises(ValueError, match=f"no kernel for {rows} rows of {size_in} to {size_out}"):
            llasa_products.added_product(x, weight, residual, TILE)


@pytest.mark.parametrize(
    ("group", "width", "length", "taken"),
    [
        (3, 128, 1040, True),
        (16, 64, 4096, True),
        (17, 64, 10, False),
        (1, 192, 10, False),
        (1, 8, 10, False),
        (1, 64, 4097, False),
    ],
)
def test_attention_has_a_kernel_for_groups_widths_and_caches_that_fit(
    group: int, width: int, length: int, taken: bool
) -> None:
    assert llasa_attention.takes(group, width, length) is taken


def test_tensors_with_gaps_are_refused() -> None:
    x, weight, residual = torch.zeros(2, 128)[:, :64], torch.zeros(8, 64), torch.zeros(2, 8)
    with pytest.raises(ValueError, match="contiguous"):
        llasa_products.added_product(x, weight, residual, TILE)
    products, angle, new = torch.zeros(2, 192), torch.zeros(2, 64), torch.zeros(2, 1, 64)
    cache, position = torch.zeros(2, 1, 8, 64), torch.tensor([5]).expand(2)
    with pytest.raises(ValueError, match="contiguous"):
        llasa_attention.attend(products, (angle, angle), (cache, cache), position, 1.0, (new, new))
