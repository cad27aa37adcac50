"""How long an AOTInductor package takes to load where nothing else has run: in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_CHILD = """
import json, sys, time
begun = time.perf_counter()
import torch
import torch._inductor
torch.zeros(1, device=sys.argv[2])
ready = time.perf_counter()
torch._inductor.aoti_load_package(sys.argv[1])
print(json.dumps([ready - begun, time.perf_counter() - ready]))
"""


@dataclass(frozen=True)
class FreshLoad:
    """Seconds: `import_s` until torch is imported and the device ready, `load_s` for the package with its weights."""

    import_s: float
    load_s: float


def fresh_load(package: Path, device: str) -> FreshLoad:
    """Load `package` (a `.pt2` file) for `device` in a new interpreter.

    Raises:
        RuntimeError: it does not load; the last line the interpreter wrote.
    """
    command = [sys.executable, "-c", _CHILD, str(package), device]
    child = subprocess.run(command, check=False, capture_output=True, text=True)
    if child.returncode:
        lines = [line for line in child.stderr.splitlines() if line.strip()]
        raise RuntimeError(f"{package} does not load: {lines[-1] if lines else f'exit {child.returncode}'}")
    return FreshLoad(*json.loads(child.stdout.splitlines()[-1]))
