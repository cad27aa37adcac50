"""Every ONNX Runtime case where it was asked to be: the shipped suite, over this repository's catalogue."""

from perf.suites.test_placement import test_placement

__all__ = ["test_placement"]
