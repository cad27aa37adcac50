"""A second look's own plugin, `-p perf.quiet`: it measures, and keeps nothing but what its starter reads.

The configuration and `PYTEST_ADDOPTS` are the run's own. What they say of where to write is the run's to do: a second
look would save its suspects as runs of their own, and write over the run's reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

WRITING: Mapping[str, object] = {
    "benchmark_save": None,
    "benchmark_autosave": None,
    "benchmark_histogram": [],
    "benchmark_cprofile_dump": [],
    "report": None,
    "graph_report": None,
    "placement_report": None,
    "traces": None,
    "accept_counters": False,
    "basetemp": None,
    "xmlpath": None,
}
"""pytest-benchmark's, our and pytest's options that write or empty a place, and their values where none is given."""


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Before any plugin is configured, and so reads them."""
    for name, absent in WRITING.items():
        setattr(config.option, name, absent)
