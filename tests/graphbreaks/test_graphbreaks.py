"""Every core whole: the shipped suite, over this repository's catalogue."""

from perf.suites.test_graphbreaks import test_graphbreaks

__all__ = ["test_graphbreaks"]
