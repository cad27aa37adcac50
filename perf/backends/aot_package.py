"""AOTInductor packages of a core: exported, compiled, and kept by content, so that one compilation serves all runs."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch._inductor
import torch._inductor.config

from perf import children
from perf.backends import torch_export
from perf.backends.build_cache import built_once
from perf.backends.deployed import Loading
from perf.backends.libraries import library_versions
from perf.backends.module_identity import digest
from perf.backends.torch_export import Example, ExportedRunner, example, export, refuse_large, size_one, smallest
from perf.contract import Blueprint

PACKAGE, SMALLEST = "model.pt2", "smallest.json"
CHECK_INPUTS = "AOTI_RUNTIME_CHECK_INPUTS"
"""A package reads this environment variable once, at its first call after loading. Without it nothing is checked: a
batch beyond the exported range runs, and so do two inputs that disagree about the batch."""


SETTING_UP = "import torch, torch._inductor; torch.zeros(1, device=sys.argv[2])"
LOADING = "torch._inductor.aoti_load_package(sys.argv[1])"


class AotRunner(ExportedRunner):
    """Runs the package at `package`, not the module it was made of. Inputs are checked at every call: another dtype or
    stride, a size out of its range or no multiple of what it must be, are a RuntimeError.

    Raises:
        UnsupportedError: the core cannot be exported, or is too large for a file.
        CoregateError: the cache cannot be written.
        RuntimeError: what was compiled does not load.
    """

    def __init__(self, blueprint: Blueprint, dtype: str) -> None:
        given = example(blueprint.core, blueprint.preset)
        self.package = package(blueprint, given, dtype)
        sizes = map(tuple, json.loads((self.package.parent / SMALLEST).read_text()))
        super().__init__(torch._inductor.aoti_load_package(str(self.package)), dtype, blueprint.device, sizes)
        with checked_inputs():
            self.run(self.prepare(given.inputs))

    def counters(self) -> Mapping[str, int]:
        return {"bytes_on_disk": self.package.stat().st_size}

    def notes(self) -> Mapping[str, str]:
        return {"package": self.package.parent.name}

    def loadings(self, folder: Path) -> Mapping[str, Loading]:
        return {"package_load_s": Loading(SETTING_UP, LOADING, (str(self.package), self._device))}


@contextmanager
def checked_inputs() -> Iterator[None]:
    """Packages whose first call falls into this block check their inputs then and from then on."""
    before = os.environ.get(CHECK_INPUTS)
    os.environ[CHECK_INPUTS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[CHECK_INPUTS]
        else:
            os.environ[CHECK_INPUTS] = before


@contextmanager
def settings_kept() -> Iterator[None]:
    """`aoti_compile_and_package` writes the device's facts into Inductor's settings, which are part of a package's
    name: the next one of the process would have another name than the same one compiled first."""
    metadata = dict(torch._inductor.config.aot_inductor.metadata)
    with torch._inductor.config.patch({"aot_inductor.metadata": metadata}):
        yield


def package(blueprint: Blueprint, given: Example, dtype: str) -> Path:
    """The core's package at the blueprint's preset and device, compiled unless the cache has it. It is loaded in a
    process of its own first: compiled code can end the process that loads it, and would end the run. Raises as
    `AotRunner` does."""
    core = blueprint.core
    module = blueprint.module(dtype)
    refuse_large(module)
    preset = next(name for name, held in core.presets.items() if held is blueprint.preset)
    name = f"{core.name}-{preset}-{_key(blueprint, module, given, dtype)[:24]}"

    def build(folder: Path) -> None:
        with size_one(given), settings_kept():
            program = export(module, given, dtype, blueprint.device)
            (folder / SMALLEST).write_text(json.dumps(smallest(program, given.axes)))
            torch._inductor.aoti_compile_and_package(program, package_path=str(folder / PACKAGE))
        _try_to_load(folder / PACKAGE, blueprint.device)

    return built_once(blueprint.cache / "aot" / name, build) / PACKAGE


def _try_to_load(file: Path, device: str) -> None:
    code = f"import sys; {SETTING_UP}; {LOADING}"
    with TemporaryDirectory(prefix="coregate-loading-") as scratch:
        child = children.run([sys.executable, "-c", code, str(file), device], Path(scratch))
    if child.returncode:
        raise RuntimeError(f"the package that AOTInductor compiled does not load: {children.failure(child)}")


def _key(blueprint: Blueprint, module: torch.nn.Module, given: Example, dtype: str) -> str:
    """A hash of all that decides what the package holds. Its code is for one processor, GPU and number of threads, and
    Inductor's settings, which the environment may change, shape it; this package's own code counts too.
    """
    forms = {
        name: f"{value.dtype} {tuple(value.shape)}" for name, value in given.inputs.items() if torch.is_tensor(value)
    }
    facts = [
        dtype,
        [torch.__version__, torch.version.cuda, torch.get_num_threads()],
        library_versions(module),
        _processor(blueprint.device),
        sorted((name, repr(value)) for name, value in torch._inductor.config.save_config_portable().items()),
        repr(given.axes),
        forms,
        [Path(file).read_text(encoding="utf8") for file in (__file__, torch_export.__file__)],
    ]
    text = json.dumps(facts) + digest(module, blueprint.preset.build, blueprint.preset.inputs)
    return hashlib.sha256(text.encode()).hexdigest()


def _processor(device: str) -> list[str]:
    own = sorted(f"{name}={value}" for name, value in torch.cpu.get_capabilities().items())
    if device != "cuda":
        return own
    return [*own, torch.cuda.get_device_name(), str(torch.cuda.get_device_capability())]
