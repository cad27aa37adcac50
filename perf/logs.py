"""What other libraries log, out of pytest's reports."""

from __future__ import annotations

import logging

import pytest

TRACE = "torch.__trace"
"""torch's logger for its own tools. Its records are data without a word, hundreds a compilation."""

HANDLERS = ("caplog_handler", "report_handler")
"""Of pytest's logging plugin; it puts them on loggers that do not propagate as well."""


def hide_torchs_trace(config: pytest.Config) -> None:
    """Else each failure of a compiled case would be shown below hundreds of empty lines."""
    capture = config.pluginmanager.get_plugin("logging-plugin")
    for name in HANDLERS:
        handler: logging.Handler | None = getattr(capture, name, None)
        if handler is not None:
            handler.addFilter(_is_not_trace)


def _is_not_trace(record: logging.LogRecord) -> bool:
    return record.name != TRACE
