"""The one exception that is the user's to mend: one line, no traceback."""

from __future__ import annotations


class CoregateError(Exception):
    """What was asked, what is allowed, what to do: in one line. The run ends with `exit_code`."""

    exit_code = 4
