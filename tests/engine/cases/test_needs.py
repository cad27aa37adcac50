"""What is missing is said with the command that brings it; nothing is asked of a machine that is not there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import torch._inductor.config
from torch._inductor import cpp_builder

from perf import needs
from perf.variants import aot


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PATH without any compiler."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    cpp_builder.cpp_compiler_search.cache_clear()
    with torch._inductor.config.patch({"cpp.cxx": (None, "g++")}):
        yield
    cpp_builder.cpp_compiler_search.cache_clear()


@pytest.mark.usefixtures("bare_path")
def test_no_compiler_says_what_to_install() -> None:
    wanted = "no C++ compiler that Inductor would take is on PATH: apt-get install g++, or set CXX"
    assert needs.compiler("cpu") == wanted
    assert needs.compiler("cuda") == "no C compiler on PATH for Triton (gcc): apt-get install gcc, or set CC"


@pytest.mark.usefixtures("bare_path")
def test_a_compiler_that_inductor_would_not_take_does_not_serve(tmp_path: Path) -> None:
    for name in ("cc", "gcc", "clang++"):
        (tmp_path / name).symlink_to("/bin/true")
    assert str(needs.compiler("cpu")).startswith("no C++ compiler that Inductor would take")
    (tmp_path / "g++").symlink_to("/bin/true")
    cpp_builder.cpp_compiler_search.cache_clear()
    assert needs.compiler("cpu") is None


def compiler_that_appends(path: Path, flags: str) -> Path:
    """g++, with `flags` after what it is asked."""
    path.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@" {flags}\n')
    path.chmod(0o755)
    return path


def archive_alone(folder: Path) -> Path:
    """A folder that has libstdc++ as an archive and not as a shared library."""
    found = subprocess.run(["g++", "-print-file-name=libstdc++.a"], capture_output=True, text=True, check=True)
    folder.mkdir()
    (folder / "libstdc++.a").symlink_to(found.stdout.strip())
    return folder


def test_a_compiler_that_has_libstdcxx_as_an_archive_does_not_serve_for_packages(tmp_path: Path) -> None:
    archived = compiler_that_appends(tmp_path / "archived", f"-L{archive_alone(tmp_path / 'only')}")
    with torch._inductor.config.patch({"cpp.cxx": (str(archived),)}):
        said = (
            f"{archived} finds no shared libstdc++ and would put a second one beside torch's: set CXX to one that does"
        )
        assert needs.compiler("cpu") is None
        assert needs.shared_cxx_library("cpu") == needs.shared_cxx_library("cuda") == said
        assert aot.host_compiler("cuda") == said


def test_a_compiler_that_links_nothing_shared_says_why(tmp_path: Path) -> None:
    failing = compiler_that_appends(tmp_path / "failing", "-lnot_there")
    with torch._inductor.config.patch({"cpp.cxx": (str(failing),)}):
        said = str(needs.shared_cxx_library("cuda"))
    assert said.startswith(f"{failing} links no shared library (")
    assert "not_there" in said


def test_the_system_s_compiler_serves() -> None:
    assert aot.host_compiler("cpu") is None


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(needs, "TemporaryFile", Mock(side_effect=OSError(30, "Read-only file system")))
    said = f"Inductor's cache {tmp_path} cannot be written (Read-only file system): set TORCHINDUCTOR_CACHE_DIR"
    assert needs.compiler("cpu") == needs.compiler("cuda") == said


@pytest.mark.parametrize(("capability", "met"), [((6, 1), False), ((7, 0), True), ((9, 0), True)])
def test_triton_needs_compute_capability_seven(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], met: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    said = needs.compiler("cuda")
    assert (
        said is None
        if met
        else said == "compute capability 6.1: Inductor's Triton needs 7.0 or newer, so a Volta card or later"
    )


def test_no_cuda_device_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert str(needs.device_present("cuda")).startswith("no CUDA device")
    assert needs.device_present("cpu") is None
    assert needs.cuda_only("cpu") == "CUDA graphs need a CUDA device: run with --device cuda"


def test_an_absent_package_is_named_with_its_install_line() -> None:
    assert needs.package("json", "json")("cpu") is None
    assert needs.package("no_such_thing", "thing")("cpu") == "package no_such_thing is not installed: pip install thing"


def test_a_provider_that_onnxruntime_lists_without_its_device_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert needs.execution_provider("CPUExecutionProvider")("cpu") is None
    assert str(needs.execution_provider("CUDAExecutionProvider")("cuda")).startswith("no CUDA device")
    assert "ONNX Runtime has no NoSuchProvider" in str(needs.execution_provider("NoSuchProvider")("cpu"))


def test_all_of_says_the_first_that_is_not_met() -> None:
    fine, one, two = (lambda device: None), (lambda device: "one"), (lambda device: "two")
    assert needs.all_of(fine, one, two)("cpu") == "one"
    assert needs.all_of(fine)("cpu") is None
