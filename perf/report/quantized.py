"""Where quantising paid and where it did not: each quantised variant beside float32, in PyTorch and in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from perf.check.parity import Parity
from perf.contract import Case
from perf.outcome import Row
from perf.report.cases import EAGER, PEAK, align, first_of, plural, seconds, size

PREFIX = "quant-"
HEADINGS = (
    *("variant", "SQNR", "task", "quantised", "in float", "size", "peak"),
    *("latency", "x eager-fp32", "x onnx fp32", ""),
)
SLOWER = 1.05
"""A latency within 5 % of float32's is not called slower: that is latency's own budget."""

PAYS, NOT_TIMED = "pays", "not timed"


@dataclass(frozen=True)
class Beside:
    """What a block's quantised variants are measured against, as far as this run has it."""

    eager: Row | None
    onnx: Row | None

    @property
    def fastest_s(self) -> float | None:
        """Seconds of the quicker float32 form: who has that at hand gains nothing from beating the other."""
        return min((row.metrics["latency_s"] for row in (self.eager, self.onnx) if row), default=None)

    @property
    def bytes(self) -> int | None:
        return self.onnx.counters.get("bytes_on_disk") if self.onnx else None


def quantised_table(rows: Mapping[str, Row], checked: Mapping[str, Parity]) -> list[str]:
    """One block a core × preset × shape × device, one line a quantised variant; below, how many paid. May be empty.

    It pays where it meets the core's floor, is not slower than the faster float32 form, not larger than the float32
    ONNX file, and better in one of the two. Ratios above 1 are faster, as in the table of cases.
    """
    keys = sorted((key for key in checked if Case.parse(key).variant.startswith(PREFIX)), key=_block)
    if not keys:
        return []
    lines: list[list[str]] = [list(HEADINGS)]
    words: list[str] = []
    for block, members in groupby(keys, key=_block):
        beside = Beside(rows.get(block.format(EAGER)), rows.get(block.format(f"onnx-{Case.parse(block).device}-fp32")))
        lines.append([block.format("*").replace("/", " ")])
        for key in sorted(members):
            words.append(verdict(checked[key], rows.get(key), beside))
            lines.append([*_line(key, checked[key], rows.get(key), beside), words[-1]])
    return [*align(lines), "", _sum(words)]


def verdict(found: Parity, row: Row | None, beside: Beside) -> str:
    """`pays`, `does not pay: …`, or why that cannot be said."""
    if not found.ok:
        return f"does not pay: below the floor, {found.reason}"
    if row is None:
        return NOT_TIMED
    if beside.fastest_s is None:
        return "no float32 beside it: run eager-fp32 too"
    speed = row.metrics["latency_s"] / beside.fastest_s
    own, theirs = row.counters.get("bytes_on_disk"), beside.bytes
    growth = own / theirs if own and theirs else None
    against = [f"{speed:.2f} times as slow"] if speed > SLOWER else []
    against += [f"{growth:.2f} times as large"] if growth and growth > 1.0 else []
    if not against and speed > 1 / SLOWER and not (growth and growth < 1.0):
        against = ["neither faster nor smaller"]
    return f"does not pay: {', '.join(against)}" if against else PAYS


def _line(key: str, found: Parity, row: Row | None, beside: Beside) -> list[str]:
    name = f"  {Case.parse(key).variant}"
    quality = [f"{found.sqnr_db:.1f} dB", "-" if found.task is None else f"{found.task:.3f}"]
    if row is None:
        return [name, *quality, *("-" for _ in HEADINGS[3:-1])]
    latency, counters = row.metrics["latency_s"], row.counters
    return [
        name,
        *quality,
        f"{counters['quantized_percent']}%" if "quantized_percent" in counters else "-",
        _left_in_float(row),
        size(counters["bytes_on_disk"]) if "bytes_on_disk" in counters else "-",
        first_of(row, PEAK, size),
        seconds(latency),
        *(f"{other.metrics['latency_s'] / latency:.2f}x" if other else "-" for other in (beside.eager, beside.onnx)),
    ]


def _left_in_float(row: Row) -> str:
    """How many layers by rule; their names are on the row."""
    names = row.notes.get("left_in_float", "")
    return "-" if not names else "0" if names == "none" else str(len(names.split(", ")))


def _block(key: str) -> str:
    """The key with `{}` where the variant stands."""
    case = Case.parse(key)
    return f"{case.core}/{case.preset}/{{}}/{case.shape}/{case.device}"


def _sum(words: Sequence[str]) -> str:
    timed = [word for word in words if word != NOT_TIMED]
    untimed = f"; {len(words) - len(timed)} not timed" if len(timed) < len(words) else ""
    return f"{plural(sum(word == PAYS for word in timed), 'quantised variant')} of {len(timed)} paid{untimed}"
