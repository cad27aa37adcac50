"""How long what is deployed takes to load where nothing else has run: an AOTInductor package, an ONNX Runtime session.

A cold or warm start (`perf.fresh`) builds the case as coregate does, from its module. What a server does instead is to
import a library and open a file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

_CHILD = """
import json, sys, time
begun = time.perf_counter()
{setting_up}
ready = time.perf_counter()
{loading}
print(json.dumps([ready - begun, time.perf_counter() - ready]))
"""


@dataclass(frozen=True)
class FreshLoad:
    """Seconds: `import_s` until the libraries are imported and the device is ready, `load_s` for the file with its
    weights."""

    import_s: float
    load_s: float


def fresh_load(setting_up: str, loading: str, arguments: tuple[str, ...]) -> FreshLoad:
    """Run both pieces of Python in a new interpreter, one after the other; they read `arguments` as `sys.argv[1:]`.

    Raises:
        RuntimeError: it does not load; the last line the interpreter wrote.
    """
    code = _CHILD.format(setting_up=setting_up, loading=loading)
    child = subprocess.run([sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True)
    if child.returncode:
        lines = [line for line in child.stderr.splitlines() if line.strip()]
        raise RuntimeError(f"{arguments[0]} does not load: {lines[-1] if lines else f'exit {child.returncode}'}")
    return FreshLoad(*json.loads(child.stdout.splitlines()[-1]))
