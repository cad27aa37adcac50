"""Exceptions that are words to the user: one line, no traceback."""

from __future__ import annotations


class CoregateError(Exception):
    """What was asked, what is allowed, what to do: in one line. The run ends with `exit_code`."""

    exit_code = 4


class UnsupportedError(Exception):
    """Raised by a variant's `build`: this core cannot run this way, and why, in one line. The case is then a skip."""
