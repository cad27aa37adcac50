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

PRESET = next(core for core in llasa.CORES if core.name == "llasa-decode-fused").presets["tiny"]

KERNELS = """
import torch
import torch.nn.functional as F
from fixtures.models.llasa_attention import CHUNK, attend
from fixtures.models.llasa_products import added_product, normed_gate, normed_product

rows = ROWS
torch.manual_seed(3)
x, residual = torch.randn(rows, 192).half(), torch.randn(rows, 24).half()
weight, scale = torch.randn(24, 192).div(14).half(), torch.rand(192).add(0.5).half()
exact, wide = x.double(), weight.double()
normed = exact * torch.rsqrt(exact.square().mean(dim=1, keepdim=True) + 0.25) * scale.double()
near = dict(rtol=1e-3, atol=1e-3)
torch.testing.assert_close(normed_product(x, weight, scale, 0.25).double(), normed @ wide.T, **near)
torch.testing.assert_close(added_product(x, weight, residual).double(), exact @ wide.T + residual.double(), **near)
gate, up = (normed @ wide.T).chunk(2, dim=1)
torch.testing.assert_close(normed_gate(x, weight, scale, 0.25).double(), F.silu(gate) * up, **near)

heads, group, width, length = 2, 3, 64, 4 * CHUNK + 5
query = torch.randn(rows, heads, group, width).half()
key, value = torch.randn(2, rows, heads, length, width).half()
new_key, new_value = torch.randn(2, rows, heads, width).half()
for filled in (0, 1, CHUNK, CHUNK + 1, length - 1, length):
    position = torch.tensor([filled, length // 2][:rows])
    found = attend(query, new_key, new_value, key, value, position, 0.125)
    for row, place in enumerate(position.tolist()):
        keys = torch.cat((key[row, :, :place], new_key[row, :, None]), dim=1).double()
        values = torch.cat((value[row, :, :place], new_value[row, :, None]), dim=1).double()
        expected = torch.softmax(query[row].double() @ keys.transpose(1, 2) * 0.125, dim=-1) @ values
        torch.testing.assert_close(found[row].double(), expected, rtol=2e-3, atol=2e-3)
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
config = LlamaConfig(**sizes, vocab_size=500, initializer_range=0.08)
fused = llasa_fused.LlasaFusedDecode(config).eval().merge_()
grouped = LlasaGroupedDecode(config).eval().merge_()
grouped.load_state_dict(fused.state_dict())
key, value = torch.randn(2, 2, ROWS, 1, 150, 64)
step = (torch.randint(500, (ROWS, 1)), torch.tensor([149, 3][:ROWS]), key, value)
with torch.no_grad():
    expected = grouped.double()(*(x.double() if x.is_floating_point() else x for x in step))
    found = fused.half()(*(x.half() if x.is_floating_point() else x for x in step))
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
        (1, 64, 4, True),
        (2, 3072, 5120, True),
        (0, 64, 4, False),
        (3, 64, 4, False),
        (2, 96, 4, False),
        (2, 64, 6, False),
    ],
)
def test_products_have_kernels_for_one_row_or_two_of_whole_blocks(
    rows: int, size_in: int, size_out: int, taken: bool
) -> None:
    assert llasa_products.takes(rows, size_in, size_out) is taken
    x, weight, residual = torch.zeros(rows, size_in), torch.zeros(size_out, size_in), torch.zeros(rows, size_out)
    if not taken:
        with pytest.raises(ValueError, match=f"no kernel for {rows} rows of {size_in} to {size_out}"):
            llasa_products.added_product(x, weight, residual)


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
    x, weight, residual = torch.zeros(2, 128)[:, :64], torch.zeros(4, 64), torch.zeros(2, 4)
    with pytest.raises(ValueError, match="contiguous"):
        llasa_products.added_product(x, weight, residual)
    query, new = torch.zeros(2, 1, 1, 64), torch.zeros(2, 1, 64)
    cache, position = torch.zeros(2, 1, 8, 64), torch.tensor([5]).expand(2)
    with pytest.raises(ValueError, match="contiguous"):
        llasa_attention.attend(query, new, new, cache, cache, position, 1.0)
