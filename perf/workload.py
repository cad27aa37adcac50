"""What a number means, as a hash: a number of another workload is neither slower nor faster."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from perf.contract import Core, Inputs, Shape, Variant


def workload(core: Core, variant: Variant, shape: Shape, inputs: Inputs) -> str:
    """16 hex digits of the variant's options, the shape, the forms of the inputs that are timed, and the work of a
    call.

    Not of the core's code: code that got slower is what the gate is for, and must not read as another workload.
    """
    work = core.work(shape)
    forms = {name: _form(value) for name, value in inputs.items()}
    text = json.dumps(
        [variant.dtype, dict(variant.options), dict(shape.dims), forms, work.unit, work.amount],
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _form(value: Any) -> str:
    return f"{value.dtype}{tuple(value.shape)}" if hasattr(value, "dtype") else type(value).__name__
