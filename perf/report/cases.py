"""The one table of a run: each case's parity, graphs, latency, speed beside eager, and verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from perf.contract import Case, Skip
from perf.outcome import FAILING, KERNEL_TIME, LATENCY, Row, Verdict, Word, undecided
from perf.report.grouped import Teller, Told, grouped

HEADINGS = (
    *("variant", "parity", "graphs", "latency", "iqr", "busy", "peak"),
    *("x eager", "of limit", "baseline", "verdict"),
)
OF_LIMIT = HEADINGS.index("of limit")
EAGER = "eager-fp32"
PRECISIONS = ("bf16", "fp16", "tf32")
BUSY = ("device_s", "cpu_s")
PEAK = ("peak_bytes", "rss_peak_bytes")
"""What a column shows: the first that the row has."""
SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def case_table(
    rows: Mapping[str, Row], verdicts: Sequence[Verdict], left_out: Mapping[str, str], tell: Teller = grouped
) -> list[str]:
    """One block a core × preset × shape × device, one line a variant; below, the verdicts that need a word."""
    judged = _by_case(verdicts)
    keys = sorted({*rows, *judged, *left_out}, key=_block_then_variant)
    lines: list[list[str]] = []
    for block, members in groupby(keys, key=_block):
        lines.append([block])
        eager = rows.get(block.replace(" ", "/").replace("*", EAGER))
        lines += [_line(key, rows.get(key), judged.get(key), eager, left_out) for key in members]
    known = any("limit_s" in row.notes for row in rows.values())
    return [*align(_without_limit([list(HEADINGS), *lines], known)), *_legend(verdicts, left_out, tell)]


def eager_beside(variant: str) -> str:
    """Eager in the precision of a variant's name: `eager-bf16` beside `inductor-default-bf16`."""
    return next((f"eager-{part}" for part in variant.split("-") if part in PRECISIONS), EAGER)


def _by_case(verdicts: Sequence[Verdict]) -> dict[str, Verdict]:
    """The verdict that stands for each timed case: one that fails, or leaves the run open, a time before anything else;
    else its latency's, or, where noise hides what that is and kernel time decides, that one's. What a case is started
    or loaded for has a key of its own, and no line here."""
    still_open = undecided(verdicts)

    def rank(found: Verdict) -> tuple[bool, bool, bool, bool, bool]:
        hidden = found.word is Word.INCONCLUSIVE and found not in still_open
        weight = found.word not in FAILING, found not in still_open
        return *weight, hidden, found.metric != LATENCY, found.metric != KERNEL_TIME

    heavy = (found for found in verdicts if found.word in FAILING or found in still_open)
    times = (found for found in verdicts if found.metric in (LATENCY, KERNEL_TIME))
    lines = [found for found in (*heavy, *times) if "#" not in found.key]
    return {found.key: found for found in sorted(lines, key=rank, reverse=True)}


def skip_lines(skips: Iterable[Skip]) -> list[str]:
    """Skips grouped by reason: each reason once, with how many cases it keeps from running and which variants."""
    by_reason: dict[str, list[Skip]] = {}
    for skip in skips:
        by_reason.setdefault(skip.reason, []).append(skip)
    return [
        f"{plural(len(group), 'case')}: {reason}  [{', '.join(sorted({skip.case.variant for skip in group}))}]"
        for reason, group in sorted(by_reason.items())
    ]


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def seconds(value: float) -> str:
    """Three digits and a unit: 0.00123 → `1.23 ms`."""
    scale, unit = next(((scale, unit) for scale, unit in SCALES if value >= scale), SCALES[-1])
    return f"{value / scale:.3g} {unit}" if value / scale < 999.5 else f"{value / scale:.0f} {unit}"


def size(count: float) -> str:
    """Three digits and a decimal unit: 9338 → `9.34 kB`."""
    scale, unit = next(((scale, unit) for scale, unit in SIZES if count >= scale), (1.0, "B"))
    return f"{count / scale:.3g} {unit}"


def align(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell; a line of one cell is a heading and widens none."""
    width = max(len(line) for line in lines)
    widths = [max((len(line[i]) for line in lines if 1 < len(line) > i), default=0) for i in range(width)]
    return [
        line[0] if len(line) == 1 else "  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=False)).rstrip()
        for line in lines
    ]


def _block(key: str) -> str:
    case = Case.parse(key)
    return f"{case.core} {case.preset} * {case.shape} {case.device}"


def _block_then_variant(key: str) -> tuple[str, bool, bool, str]:
    variant = Case.parse(key).variant
    return _block(key), variant != EAGER, not variant.startswith("eager"), variant


def _line(
    key: str, row: Row | None, verdict: Verdict | None, eager: Row | None, left_out: Mapping[str, str]
) -> list[str]:
    name = f"  {Case.parse(key).variant}"
    word = str(verdict.word) if verdict else str(Word.WRONG) if key in left_out else "-"
    if row is None:
        return [name, "fails" if key in left_out else "-", *"-" * 7, _baseline(verdict), word]
    latency = row.metrics[LATENCY]
    beside = f"{eager.metrics[LATENCY] / latency:.2f}x" if eager else "-"
    spread = f"±{float(row.notes['iqr_s']) / 2 / latency:.1%}" if "iqr_s" in row.notes else "-"
    return [
        name,
        row.notes.get("parity", "-"),
        _graphs(row),
        seconds(latency),
        spread,
        first_of(row, BUSY, seconds),
        first_of(row, PEAK, size),
        beside,
        of_limit(row),
        _baseline(verdict),
        word,
    ]


def of_limit(row: Row) -> str:
    """How much of the machine's limit a row reaches: the least time the call could take, over the time in which a GPU
    is at work, or over latency on a CPU. `-` where the limit is not known.
    """
    if "limit_s" not in row.notes:
        return "-"
    taken = next(row.metrics[name] for name in ("device_s", LATENCY) if name in row.metrics)
    return f"{float(row.notes['limit_s']) / taken:.0%}"


def _without_limit(lines: Sequence[list[str]], known: bool) -> list[list[str]]:
    """A column that nothing stands in is left away."""
    return [line if known or len(line) == 1 else [*line[:OF_LIMIT], *line[OF_LIMIT + 1 :]] for line in lines]


def first_of(row: Row, names: Iterable[str], shown: Callable[[float], str]) -> str:
    return next((shown(row.metrics[name]) for name in names if name in row.metrics), "-")


def _graphs(row: Row) -> str:
    graphs = row.counters.get("graphs", 0)
    breaks = row.counters.get("graph_breaks", 0)
    if graphs:
        return f"{graphs}, {breaks} breaks" if breaks else str(graphs)
    return f"onnx, opset {row.counters['opset']}" if "opset" in row.counters else "-"


def _baseline(verdict: Verdict | None) -> str:
    if verdict is None or verdict.baseline is None:
        return "-"
    change = f" ({verdict.ratio - 1:+.1%})" if verdict.ratio is not None else ""
    name = "" if verdict.metric == LATENCY else f"{verdict.metric} "
    return f"{name}{_quantity(verdict.metric, verdict.baseline)}{change}"


def _quantity(metric: str, value: float) -> str:
    return seconds(value) if metric.endswith("_s") else size(value) if metric.endswith("_bytes") else f"{value:g}"


def _legend(verdicts: Sequence[Verdict], left_out: Mapping[str, str], tell: Teller) -> list[str]:
    """Counts by word, then a line for each verdict that fails, and what is to be said of the others."""
    if not verdicts:
        return ["", *(f"{Word.WRONG}: {key}: {why}" for key, why in sorted(left_out.items()))] if left_out else []
    counts = ", ".join(f"{n} {word}" for word in Word if (n := sum(found.word is word for found in verdicts)))
    lines = [line for word in Word if word not in (Word.SAME, Word.IMPROVED) for line in _spoken(word, verdicts, tell)]
    if hidden := sum(found.word is Word.INCONCLUSIVE for found in verdicts) - len(undecided(verdicts)):
        lines.append(f"kernel time decides where noise hides the latency: {plural(hidden, 'case')}")
    return ["", counts, *lines]


def _spoken(word: Word, verdicts: Sequence[Verdict], tell: Teller) -> list[str]:
    """All of those that fail have a line of their own."""
    found = [verdict for verdict in verdicts if verdict.word is word]
    if word in FAILING:
        return [f"{word}: {verdict.key}: {_because(verdict)}" for verdict in found]
    return tell(word, [Told(verdict.key, verdict.metric, verdict.note) for verdict in found])


def _because(found: Verdict) -> str:
    if found.ratio is not None and found.word is Word.REGRESSED and found.budget:  # a counter has none, and says it all
        change = f"{found.ratio - 1:+.1%} over a budget of {found.budget:+.0%}"
        return f"{found.metric} {change}{', ' + found.note if found.note else ''}"
    return found.note
