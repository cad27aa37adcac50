"""Which kernels autotuning chose: from a wrapper's source and globals as Inductor writes them, and from real ones."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from torch._inductor.utils import fresh_cache

from perf.check.choices import as_notes, chosen_in, noting_choices, tuned

WRAPPER = """
from torch._inductor.select_algorithm import extern_kernels
triton_tem_fused_mm_3 = async_compile.triton('triton_tem_fused_mm_3', '''
@triton_heuristics.template(
    num_stages=3,
    num_warps=4,
    triton_meta={},
)
@triton.jit
def triton_tem_fused_mm_3(arg_A, arg_B, out_ptr0):
    BLOCK_M : tl.constexpr = 64
    ALLOW_TF32 : tl.constexpr = False
''', device_str='cuda')
triton_poi_fused_relu_4 = async_compile.triton('triton_poi_fused_relu_4', '''
@triton_heuristics.pointwise(size_hints={'x': 4096})
def triton_poi_fused_relu_4(in_out_ptr0, xnumel, XBLOCK : tl.constexpr):
    RBLOCK : tl.constexpr = 8
''', device_str='cuda')
cpp_fused_addmm_relu_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
inline void kernel_micro_gemm(const float* A, float* C) {}
extern "C"  void kernel(const float* X, float* Y)
{
    constexpr int64_t Mr = 8;
    constexpr int64_t Nr = 32;
    constexpr int64_t Mt_blocks = 4;
    kernel_micro_gemm(X, Y);
}
''')
cpp_fused__softmax_1 = async_compile.cpp_pybinding(['float*'], r'''
extern "C"  void kernel(float* in_out_ptr0) {}
''')
async_compile.wait(globals())
def call(args):
    extern_kernels.addmm(arg1_1, arg2_1, out=buf0)
    extern_kernels.addmm(arg3_1, arg4_1, out=buf1)
    buf2 = torch.ops.mkl._mkl_linear.default(buf0, constant1, constant2, None, 32)
    triton_tem_fused_mm_3.run(buf1, arg5_1, buf3)
"""


def test_templates_and_calls_out_are_choices_and_a_kernel_of_one_form_is_none() -> None:
    assert Counter(chosen_in(WRAPPER)) == {
        "triton_tem_fused_mm ALLOW_TF32=False BLOCK_M=64 num_stages=3 num_warps=4": 1,
        "cpp_fused_addmm_relu Mr=8 Nr=32": 1,
        "extern addmm": 2,
        "extern _mkl_linear": 1,
    }


def kernel(*launchers: SimpleNamespace, cache: dict[str, object] | None) -> SimpleNamespace:
    return SimpleNamespace(launchers=list(launchers), autotune_cache_info=cache)


def launcher(**blocks: int) -> SimpleNamespace:
    return SimpleNamespace(config=SimpleNamespace(kwargs=blocks, num_warps=8, num_stages=1))


def test_a_tuned_kernel_has_the_configuration_that_was_left() -> None:
    names = {
        "triton_red_fused_sum_0": kernel(launcher(XBLOCK=8, R0_BLOCK=512), cache={"autotune_cache_state": "miss"}),
        "from_cache_1": kernel(launcher(XBLOCK=1), cache={"autotune_cache_state": "hit"}),
        "no_choice_2": kernel(launcher(XBLOCK=1), cache={"only_config": "…"}),
        "not_called_3": kernel(launcher(XBLOCK=1), launcher(XBLOCK=2), cache={}),
        "of_an_older_torch_4": kernel(launcher(XBLOCK=1), cache=None),
        "call": print,
    }
    assert list(tuned(names)) == [
        "triton_red_fused_sum R0_BLOCK=512 XBLOCK=8 num_stages=1 num_warps=8",
        "from_cache XBLOCK=1 num_stages=1 num_warps=8",
    ]


def test_notes_hold_the_choices_as_data_and_a_digest_that_does_not_hang_on_their_order() -> None:
    one, other = as_notes({"extern mm": 2, "a": 1}), as_notes({"a": 1, "extern mm": 2})
    assert one == other
    assert json.loads(one["kernel_choices"]) == {"a": 1, "extern mm": 2}
    assert len(one["kernel_choices_digest"]) == 8
    assert one["kernel_choices_digest"] != as_notes({"a": 1})["kernel_choices_digest"]
    assert as_notes({}) == {}


def compiled_once() -> Counter[str]:
    torch._dynamo.reset()
    with noting_choices() as found, torch.no_grad():
        torch.compile(torch.nn.Linear(6, 5), backend="inductor")(torch.ones(3, 6))
    return found


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler: apt-get install g++")
def test_compiled_code_and_the_same_from_the_cache_tell_the_same() -> None:
    """A linear layer of one bias is one `addmm`, whoever runs it."""
    with fresh_cache():
        assert compiled_once() == {"extern addmm": 1}
        assert compiled_once() == {"extern addmm": 1}
    torch._dynamo.reset()


def test_where_nothing_is_compiled_nothing_is_said() -> None:
    with noting_choices() as found:
        torch.nn.Linear(6, 5)(torch.ones(3, 6))
    assert not found
