"""Cold and warm starts side by side, with the number of calls after which a longer start has paid for itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from perf.contract import Case
from perf.fresh import ColdStart, Start, payback_calls
from perf.report.cases import align, eager_beside, seconds

HEADINGS = (
    "variant",
    "import",
    "cold",
    "warm",
    "from artefacts",
    "loading alone",
    "later call",
    "memory",
    "pays back after",
)


def coldstart_table(starts: Mapping[str, ColdStart]) -> list[str]:
    """One block a core × shape; `cold`, `warm` and `from artefacts` are from loaded libraries to the first result.

    `loading alone` is opening the file that is served, in a process that does nothing else.
    Pay-back is against eager of the variant's precision in the same block, cold and warm.
    """
    lines: list[list[str]] = [list(HEADINGS)]
    for block, keys in groupby(sorted(starts, key=_eager_first), key=_block):
        lines.append([block.replace("/", " ")])
        lines += [_line(key, starts[key], starts.get(_eager(key))) for key in keys]
    return [*align(lines), *_legend(starts.values())]


def _legend(starts: Iterable[ColdStart]) -> list[str]:
    if not any(start.loads for start in starts):
        return []
    return [
        "loading alone: opening what is served in a process that does nothing else, a package or a session; after the",
        "slash from the graph that ONNX Runtime had optimised and saved",
    ]


def _block(key: str) -> str:
    case = Case.parse(key)
    return f"{case.core}/{case.preset}/*/{case.shape}/{case.device}"


def _eager_first(key: str) -> tuple[str, bool, str]:
    variant = Case.parse(key).variant
    return _block(key), variant != eager_beside(variant), variant


def _eager(key: str) -> str:
    case = Case.parse(key)
    return f"{replace(case, variant=eager_beside(case.variant)).key}#coldstart"


def _line(key: str, found: ColdStart, eager: ColdStart | None) -> list[str]:
    return [
        f"  {Case.parse(key).variant}",
        seconds(found.cold.import_s),
        seconds(found.cold.ready_s),
        seconds(found.warm.ready_s),
        seconds(found.from_artifacts.ready_s) if found.from_artifacts else "-",
        _loading(found.loads),
        seconds(found.warm.later_call_s),
        f"{found.warm.rss_peak_bytes / 2**20:.0f} MiB",
        f"{_calls(found.cold, eager.cold)} cold, {_calls(found.warm, eager.warm)} warm" if eager else "-",
    ]


def _loading(loads: Mapping[str, float]) -> str:
    """A package or a session from its file; behind a slash, from what ONNX Runtime had optimised and saved."""
    ways = ("package_load_s", "session_load_s", "optimised_load_s")
    return " / ".join(seconds(loads[way]) for way in ways if way in loads) or "-"


def _calls(variant: Start, eager: Start) -> str:
    calls = payback_calls(variant, eager)
    return "never" if calls is None else f"{calls}"
