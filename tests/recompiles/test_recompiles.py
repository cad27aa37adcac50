"""Every serving plan covers what it serves: the shipped suite, over this repository's catalogue."""

from perf.suites.test_recompiles import test_recompiles

__all__ = ["test_recompiles"]
