"""What is missing is said with the command that brings it; nothing is asked of a machine that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from perf import needs


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH without any compiler."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)


@pytest.mark.usefixtures("bare_path")
def test_no_compiler_says_what_to_install() -> None:
    assert needs.compiler("cpu") == "no C++ compiler on PATH (g++): apt-get install g++, or set CXX"
    assert needs.compiler("cuda") == "no C compiler on PATH for Triton (gcc): apt-get install gcc, or set CC"


@pytest.mark.usefixtures("bare_path")
def test_a_compiler_by_any_of_its_names_serves(tmp_path: Path) -> None:
    tool = tmp_path / "clang++"
    tool.write_text("")
    tool.chmod(0o755)
    assert needs.compiler("cpu") is None


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
