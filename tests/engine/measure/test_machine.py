"""Machine classes: hardware alone, spelled so that it can name a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perf.measure.machine import commit, conditions, cpu, driver, machine_class, software

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Processor

processor\t: 1
model name\t: another
"""


def test_cpu_is_the_first_processors_model_with_family_and_number() -> None:
    assert cpu(CPUINFO) == "Intel(R) Xeon(R) Processor f6m143"


def test_cpu_without_family_is_the_bare_name() -> None:
    assert cpu("model name\t: Some ARM Core\n") == "Some ARM Core"


def test_class_without_a_gpu_is_cpu_times_cores() -> None:
    hardware = {"cpu": "Intel(R) Xeon(R) Processor f6m143", "cores": "2"}
    assert machine_class(hardware) == "intel-xeon-processor-f6m143-2c"


def test_the_clock_in_a_cpus_name_is_left_out() -> None:
    hardware = {"cpu": "Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz f6m142", "cores": "8"}
    assert machine_class(hardware) == "intel-core-i7-8550u-cpu-f6m142-8c"


def test_class_with_a_gpu_is_the_gpu() -> None:
    hardware = {"cpu": "x", "cores": "16", "gpu": "NVIDIA H100 80GB HBM3"}
    assert machine_class(hardware) == "nvidia-h100-80gb-hbm3"


def test_the_driver_is_the_kernel_modules() -> None:
    """Both kinds of module, closed and open, as they say it of themselves."""
    closed = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12.3.0"
    )
    opened = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC version: 12.3.0"
    assert (driver(closed), driver(opened), driver("")) == ("550.54.15", "580.159.04", "")


def git(folder: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commit_is_heads_whatever_is_tagged_and_says_where_files_were_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "model.py").write_text("x = 1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "tag", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit(tmp_path) == head
    (tmp_path / "model.py").write_text("x = 2")
    assert commit(tmp_path) == f"{head}-dirty"


def test_without_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert commit(tmp_path) == ""


def test_what_the_environment_says_of_threads_is_kept_beside_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert dict(conditions().items() - software().items()) == {"OMP_WAIT_POLICY": "passive"}
