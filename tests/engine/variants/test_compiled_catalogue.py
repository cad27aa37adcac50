"""Compiled variants as the catalogue has them: names, options, and what each needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from perf.catalogue import discover
from perf.variants.compiled import listed

VARIANTS = discover([], [], Path(__file__).parents[3]).variants


def test_an_unknown_backend_is_missing() -> None:
    said = listed("no_such_backend")("cpu")
    assert said == "torch.compile has no backend no_such_backend: register it with torch._dynamo.register_backend"
    assert VARIANTS["compile-tvm"].missing("cpu") == "package tvm is not installed: pip install apache-tvm"
    assert "has no backend onnxrt" in str(VARIANTS["compile-onnxrt"].missing("cpu"))


def test_every_inductor_mode_is_a_variant() -> None:
    for mode in torch._inductor.list_mode_options():
        assert VARIANTS[f"inductor-{mode.replace('-', '_')}"].options["mode"] == mode


@pytest.mark.parametrize("name", ["inductor-reduce_overhead", "inductor-option-cudagraphs", "cudagraphs", "eager-tf32"])
def test_what_needs_cuda_is_a_skip_on_a_cpu(name: str) -> None:
    assert "need a CUDA device" in str(VARIANTS[name].missing("cpu"))


def test_every_option_is_one_that_inductor_lists() -> None:
    known = set(torch._inductor.list_options())
    used = {option for made in VARIANTS.values() for option in made.options.get("options", {})}
    assert {"epilogue_fusion", "max_autotune", "fallback_random", "shape_padding", "triton.cudagraphs"} <= used <= known
