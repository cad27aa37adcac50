"""Exceptions that are words to the user: one line, no traceback."""

from __future__ import annotations


class CoregateError(Exception):
    """What was asked, what is allowed, what to do: in one line. The run ends with `exit_code`."""

    exit_code = 4


class UnsupportedError(Exception):
    """Raised by a variant's `build`: this core cannot run this way, and why, in one line. The case is then a skip."""


class CrashError(Exception):
    """To build or to call a case ended a process, and would end this one."""


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # some cannot even say what they are
        return ""


def first_line(error: BaseException) -> str:
    """The first line that says something, with the kind of error, and where TorchDynamo stood if it is one of its."""
    text = next((line.strip() for line in _said(error).splitlines() if line.strip()), "")
    frames = getattr(error, "real_stack", None)
    place = f" — {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {text}"[:300] + place
