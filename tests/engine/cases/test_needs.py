"""What is missing is said with the command that brings it; nothing is asked of a machine that is not there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import torch._inductor.config
from torch._inductor import cpp_builder

from perf import needs
from perf.variants import aot

SYSTEM = "/usr/bin/g++" if Path("/usr/bin/g++").exists() else "g++"
"""And not what CXX names, which the machine may have wrong."""


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


def script(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder that has libstdc++ as an archive and not as a shared library."""
    found = subprocess.run([SYSTEM, "-print-file-name=libstdc++.a"], capture_output=True, text=True, check=True)
    if not Path(found.stdout.strip()).is_absolute():
        pytest.skip(f"{SYSTEM} has no libstdc++.a: dnf install libstdc++-static")
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "libstdc++.a").symlink_to(found.stdout.strip())
    return folder


def test_a_compiler_that_finds_the_archive_alone_does_not_serve_for_packages(tmp_path: Path, archive: Path) -> None:
    archived = script(tmp_path / "archived", f'exec {SYSTEM} "$@" -L{archive}')
    with torch._inductor.config.patch({"cpp.cxx": (str(archived),)}):
        said = f"{archived} finds no libstdc++.so and links a second beside torch's: apt-get install g++, or set CXX"
        assert needs.compiler("cpu") is None
        assert needs.shared_cxx_library("cpu") == needs.shared_cxx_library("cuda") == said
        assert aot.host_compiler("cuda") == said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f'exec {SYSTEM} "$@" -lnot_there', "cannot find -lnot_there"),
        ('printf "no \\351\\n" >&2; exit 3', "(no \ufffd)"),
        ("exit 3", "(exit status 3)"),
        ("exit 0", "(it makes none)"),
    ],
)
def test_what_links_nothing_says_why_in_one_line(tmp_path: Path, line: str, why: str) -> None:
    found = script(tmp_path / "compiler", line)
    said = str(needs._second_library(str(found)))
    assert said.startswith(f"{found} links no shared library (")
    assert why in said
    assert len(said.splitlines()) == 1


def test_what_a_compiler_says_need_be_no_utf_8(tmp_path: Path) -> None:
    found = script(tmp_path / "compiler", f'printf "\\351" >&2; exec {SYSTEM} "$@"')
    assert needs._second_library(str(found)) is None


@pytest.mark.parametrize(
    ("error", "why"),
    [(subprocess.TimeoutExpired("c++", 60), "not within 60 s"), (OSError(8, "Exec format error"), "Exec format error")],
)
def test_a_compiler_that_hangs_or_does_not_start_says_so(
    monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=error))
    said = f"{why}/c++ links no shared library ({why}): apt-get install g++, or set CXX"
    assert needs._second_library(f"{why}/c++") == said


@pytest.mark.parametrize("name", ["g++", "gcc"])
def test_a_system_s_compiler_serves(name: str) -> None:
    """gcc links no C++ library by itself: there is no second one."""
    with torch._inductor.config.patch({"cpp.cxx": (shutil.which(name),)}):
        assert aot.host_compiler("cpu") is None


@pytest.mark.usefixtures("bare_path")
def test_packages_need_a_compiler_first() -> None:
    assert str(aot.host_compiler("cuda")).startswith("no C++ compiler that Inductor would take")


def test_libraries_are_looked_into_on_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=AssertionError))
    assert needs.shared_cxx_library("cpu") is None


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
