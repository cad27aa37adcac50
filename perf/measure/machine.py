"""The machine a number belongs to: its class (hardware alone), and the software it ran, which is provenance."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perf.measure.nvml import driver_version

THREADS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
SOFTWARE = (
    "torch",
    "torchvision",
    "triton",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnx",
    "onnxscript",
    "torchao",
    "diffusers",
    "transformers",
    "numpy",
)
CPUINFO = Path("/proc/cpuinfo")
DRIVER = Path("/proc/driver/nvidia/version")


def cpu(cpuinfo: str) -> str:
    """Model name with family and model number: virtual machines often show a bare «Intel(R) Xeon(R) Processor»."""
    fields = dict(re.findall(r"^([\w ]+?)\s*:\s*(.*)$", cpuinfo.split("\n\n")[0], flags=re.MULTILINE))
    name = fields.get("model name", platform.processor() or platform.machine())
    return f"{name} f{fields['cpu family']}m{fields['model']}" if {"cpu family", "model"} <= fields.keys() else name


def cores() -> int:
    """Logical cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hardware(device: str) -> dict[str, str]:
    """CPU model and cores, and the GPU's name where `device` is cuda."""
    found = {"cpu": cpu(CPUINFO.read_text() if CPUINFO.exists() else ""), "cores": str(cores())}
    if device == "cuda":
        import torch

        found["gpu"] = torch.cuda.get_device_name()
    return found


def machine_class(hardware: Mapping[str, str]) -> str:
    """A folder name: `nvidia-h100-80gb-hbm3` on a GPU, else CPU model × cores: `intel-xeon-processor-f6m143-2c`.

    The host CPU of a GPU machine is provenance here: device time, which is judged tightly, does not depend on it.
    """
    text = hardware["gpu"] if "gpu" in hardware else f"{hardware['cpu']}-{hardware['cores']}c"
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)|@.*ghz", " ", text.lower())).strip("-")


def driver(proc_version: str) -> str:
    """NVIDIA's, from `/proc/driver/nvidia/version`: the first number after «Kernel Module»; empty without one."""
    found = re.search(r"Kernel Module.*?(\d+(?:\.\d+)+)", proc_version)
    return found[1] if found else ""


def software() -> dict[str, str]:
    """Versions of what was imported to run the cases, of CUDA and of the driver; what is absent is absent here too."""
    import torch

    proc_version = DRIVER.read_text() if DRIVER.exists() else ""
    optional = {"cuda": torch.version.cuda or "", "driver": driver(proc_version) or driver_version()}
    found = {"python": platform.python_version(), **{name: text for name, text in optional.items() if text}}
    for name in SOFTWARE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def conditions() -> dict[str, str]:
    """`software`, and what the environment says of OpenMP's threads: a softmax that opens hundreds of teams took 216 ms
    with passive waiting and 11 without, on two cores."""
    return {**software(), **{name: os.environ[name] for name in THREADS if name in os.environ}}


def commit(root: Path) -> str:
    """Of the code under test: the 40 digits of git's HEAD in `root`, with `-dirty` behind them where tracked files were
    changed since; empty where there is no git, no repository or no commit.
    """
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        said = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""
