"""How long what is deployed takes to load where nothing else has run: an AOTInductor package, an ONNX Runtime session.

A cold or warm start (`perf.fresh`) builds the case as coregate does, from its module. What a server does instead is to
import a library and open a file.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from perf import children

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


def fresh_load(setting_up: str, loading: str, arguments: tuple[str, ...], scratch: Path) -> FreshLoad:
    """Run both pieces of Python in a new interpreter, one after the other; they read `arguments` as `sys.argv[1:]`.
    `scratch` is the caller's folder that they read from.

    Raises:
        RuntimeError: it does not load; what killed the interpreter, or the last line that it wrote.
    """
    code = _CHILD.format(setting_up=setting_up, loading=loading)
    child = children.run([sys.executable, "-c", code, *arguments], scratch)
    if child.returncode:
        raise RuntimeError(f"{arguments[0]} does not load: {children.failure(child)}")
    return FreshLoad(*json.loads(child.stdout.splitlines()[-1]))
