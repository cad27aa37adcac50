"""What the table of a comparison says beside its lines."""

from __future__ import annotations

from perf.ab.table import software_lines


def test_software_that_differs_is_named() -> None:
    base, head = {"torch": "2.13.0", "numpy": "2.4.6", "onnx": "1.23.2"}, {"torch": "2.14.1", "numpy": "2.4.6"}
    assert software_lines(base, head) == ["onnx 1.23.2 → absent", "torch 2.13.0 → 2.14.1"]
