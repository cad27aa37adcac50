"""What a run says on the terminal while its tests are at work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest


def teller(config: pytest.Config) -> Callable[[str], object]:
    """Writes a line at once, also from within a test, whose output is captured."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None:
        return print

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled() if capture is not None else nullcontext():
            reporter.write_line(f"\n{line}")

    return tell
