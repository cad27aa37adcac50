"""The step by kernels of its own: on a CPU the grouped step; each kernel, in Triton's interpreter, against torch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from fixtures.cores import llasa
from fixtures.models.llasa_fused import LlasaFusedDecode
from fixtures.models.llasa_grouped import LlasaGroupedDecode
from fixtures.models.llasa_lm import random_lm
from fixtures.models.llasa_products import suits

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


@pytest.mark.parametrize("rows", [1, 2])
def test_each_kernel_computes_what_torch_does_in_float64(rows: int) -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    script = KERNELS.replace("ROWS", str(rows))
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip().endswith("all as in float64"), done.stderr[-3000:]


@torch.no_grad()
def test_where_no_tensor_suits_the_kernels_it_is_the_grouped_step() -> None:
    inputs = PRESET.inputs(PRESET.shapes[0], 3)
    fused, grouped = (random_lm(kind, "tiny").merge_()(**inputs) for kind in (LlasaFusedDecode, LlasaGroupedDecode))
    for own, theirs in zip(fused, grouped, strict=True):
        assert torch.equal(own, theirs)


def test_nothing_on_a_cpu_suits() -> None:
    assert not suits(2, torch.zeros(2, 64, dtype=torch.float16))
