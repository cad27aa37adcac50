"""Which kernels autotuning chose, as the code that Inductor loaded has them: whether it was compiled here or taken from
the cache, where nothing is tuned any more and the tuner's own listeners (`add_feedback_saver`) hear nothing.

Read from the Python wrapper of each compiled graph: calls out to libraries, templates (matrix products and the like)
with their tile sizes, and Triton kernels that had several configurations, with the one that was left after their first
call. Names are without their running numbers, which shift with every other kernel. Code without a Python wrapper
(AOTInductor, `cpp_wrapper`) tells none of it, and neither does anything that is not Inductor's.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(", re.MULTILINE)
END = re.compile(r"^async_compile\.wait\(", re.MULTILINE)
EXTERN = re.compile(r"\b(?:extern_kernels|torch\.ops\.(?:mkl|mkldnn|aten))\.(\w+)(?:\.\w+)?\(")
TEMPLATE = ("@triton_heuristics.template(", "kernel_micro_gemm(")
TILE = re.compile(
    r"\b([A-Z][A-Z0-9_]*)\s*: tl\.constexpr = (\w+)|\b(num_stages|num_warps)=(\d+)|constexpr int64_t ([MNK]r) = (\d+);"
)
ONE = "only_config"
"""Stands in what Inductor's autotune cache says of a kernel that left it nothing to choose."""


@contextmanager
def noting_choices() -> Iterator[Counter[str]]:
    """How often each choice stands in the code loaded within the block; filled when it ends, empty where none was."""
    found: Counter[str] = Counter()
    before = _loaded()
    try:
        yield found
    finally:
        known = set(map(id, before))
        for module in _loaded():
            if id(module) not in known and hasattr(module, "call"):
                found.update(chosen_in(_source(module)))
                found.update(tuned(vars(module)))


def _loaded() -> list[ModuleType]:
    """What Inductor has loaded so far. It is not imported for this: where nobody did, nothing was loaded."""
    codecache: Any = sys.modules.get("torch._inductor.codecache")
    return list(codecache.PyCodeCache.modules) if codecache else []


def as_notes(choices: Mapping[str, int]) -> dict[str, str]:
    """`kernel_choices`: the choices as JSON, and `kernel_choices_digest`: eight digits that differ where they do.
    Empty where there are none."""
    if not choices:
        return {}
    text = json.dumps(dict(sorted(choices.items())))
    return {"kernel_choices": text, "kernel_choices_digest": hashlib.sha256(text.encode()).hexdigest()[:8]}


def chosen_in(source: str) -> Iterator[str]:
    """Of a wrapper's source, `extern mm` for each call to a library and `fused_mm BLOCK_M=64 …` for each template."""
    end = END.search(source)
    kernels, calls = (source[: end.start()], source[end.end() :]) if end else ("", source)
    _, *parts = KERNEL.split(kernels)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if any(mark in body for mark in TEMPLATE):
            yield " ".join([_plain(name), *_tiles(body)])
    yield from (f"extern {name}" for name in EXTERN.findall(calls))


def tuned(names: Mapping[str, Any]) -> Iterator[str]:
    """Of a wrapper's globals, `triton_red_fused_sum XBLOCK=8 …` for each kernel whose configuration was chosen."""
    for name, kernel in names.items():
        launchers = getattr(kernel, "launchers", None) or []
        cache: Mapping[str, Any] | None = getattr(kernel, "autotune_cache_info", None)
        config = getattr(launchers[0], "config", None) if len(launchers) == 1 else None
        if config is not None and cache is not None and ONE not in cache:
            settings = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
            yield " ".join([_plain(name), *(f"{key}={value}" for key, value in sorted(settings.items()))])


def _tiles(body: str) -> list[str]:
    found = (tuple(filter(None, match)) for match in TILE.findall(body))
    return sorted({f"{name}={value}" for name, value in found})


def _plain(name: str) -> str:
    return re.sub(r"_\d+$", "", name)


def _source(module: ModuleType) -> str:
    path = Path(module.__file__ or "")
    return path.read_text(encoding="utf8") if path.is_file() else ""
