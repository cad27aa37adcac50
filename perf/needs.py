"""What a variant needs of a machine. A need says None, or what is missing and the command that brings it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

Need = Callable[[str], str | None]
"""device → None where the need is met, else one line: what is missing, and how to get it."""


def device_present(device: str) -> str | None:
    """A CUDA device is asked of torch, which sees what the driver gives this process."""
    if device != "cuda":
        return None
    import torch

    return None if torch.cuda.is_available() else "no CUDA device: torch.cuda.is_available() is False; see nvidia-smi"


def package(name: str, install: str) -> Need:
    """The importable package `name`; `install` is what to hand to pip."""

    def need(device: str) -> str | None:
        return None if find_spec(name) else f"package {name} is not installed: pip install {install}"

    return need


def compiler(device: str) -> str | None:
    """Inductor's: on a CPU the C++ compiler that it would take; on CUDA a C compiler, Triton, and compute capability ≥
    7.0; on both a folder to write to."""
    return (_cxx() if device == "cpu" else _cc()) or _writable_cache() or device_present(device) or _triton(device)


def _cxx() -> str | None:
    from torch._inductor import cpp_builder
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        found = shutil.which(cpp_builder.get_cpp_compiler())  # it remembers what was there when it first looked
    except InvalidCxxCompiler:
        found = None
    return None if found else "no C++ compiler that Inductor would take is on PATH: apt-get install g++, or set CXX"


def shared_cxx_library(device: str) -> str | None:
    """Inductor's C++ compiler must link the libstdc++ that torch has loaded. One that finds the archive alone puts a
    second copy into what it makes, whose locale facets are numbered anew: an AOTInductor package looks one up while it
    is loaded (std::regex, for the name of the device) and gets another."""
    from torch._inductor import cpp_builder

    return _second_library(cpp_builder.get_cpp_compiler()) if sys.platform == "linux" else None


_ASKS_FOR_A_LOCALE = "#include <locale>\nstd::locale made() { return std::locale(); }\n"
_OF_THE_ARCHIVE = b"_ZNSt6locale5_ImplC"
"""A constructor that no header mentions: where its name is, libstdc++'s locales are."""


@cache
def _second_library(compiler: str) -> str | None:
    with TemporaryDirectory(prefix="coregate-needs-") as folder:
        library = Path(folder) / "library.so"
        why = _not_linked([compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)])
        if why or not library.exists():
            return f"{compiler} links no shared library ({why or 'it makes none'}): apt-get install g++, or set CXX"
        if _OF_THE_ARCHIVE in library.read_bytes():
            return (
                f"{compiler} finds no libstdc++.so and links a second beside torch's: apt-get install g++, or set CXX"
            )
    return None


def _not_linked(command: Sequence[str]) -> str:
    """Why, in one line; empty where the command succeeds."""
    try:
        made = subprocess.run(
            command, input=_ASKS_FOR_A_LOCALE, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return "not within 60 s"
    except OSError as error:
        return error.strerror or str(error)
    if not made.returncode:
        return ""
    said = [line.strip() for line in made.stderr.splitlines() if line.strip()] or [f"exit status {made.returncode}"]
    return next((line for line in said if "error" in line or "cannot" in line), said[0])[:200]


def _cc() -> str | None:
    wanted = os.environ.get("CC", "gcc")
    if any(shutil.which(name) for name in (wanted, "clang", "cc")):
        return None
    return f"no C compiler on PATH for Triton ({wanted}): apt-get install gcc, or set CC"


def _writable_cache() -> str | None:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    try:
        with TemporaryFile(dir=cache_dir()):
            return None
    except OSError as error:
        return f"Inductor's cache {cache_dir()} cannot be written ({error.strerror}): set TORCHINDUCTOR_CACHE_DIR"


def _triton(device: str) -> str | None:
    if device != "cuda":
        return None
    import torch

    if find_spec("triton") is None:
        return "package triton is not installed: pip install triton"
    major, minor = torch.cuda.get_device_capability()
    if (major, minor) < (7, 0):
        return f"compute capability {major}.{minor}: Inductor's Triton needs 7.0 or newer, so a Volta card or later"
    return None


def cuda_only(device: str) -> str | None:
    """CUDA graphs and their like, which torch accepts on a CPU without a word and then does not do."""
    return device_present(device) if device == "cuda" else "CUDA graphs need a CUDA device: run with --device cuda"


def execution_provider(name: str) -> Need:
    """ONNX Runtime with the execution provider `name`. It lists CUDA where there is no GPU, so the device is
    asked too."""

    def need(device: str) -> str | None:
        if find_spec("onnxruntime") is None:
            return "package onnxruntime is not installed: pip install onnxruntime-gpu"
        import onnxruntime

        if name not in onnxruntime.get_available_providers():
            return f"ONNX Runtime has no {name}: pip install onnxruntime-gpu"
        return None if name == "CPUExecutionProvider" else device_present("cuda")

    return need


def all_of(*needs: Need) -> Need:
    """The first need that is not met."""

    def need(device: str) -> str | None:
        return next((reason for each in needs if (reason := each(device)) is not None), None)

    return need
