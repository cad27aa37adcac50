"""Every core × variant at parity: the shipped suite, over this repository's catalogue."""

from perf.suites.test_parity import test_parity

__all__ = ["test_parity"]
