"""Pictures of a study. matplotlib is the `study` extra; without it there is the table alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from perf.study.analysis import Study

ABSENT = "no plots: package matplotlib is not installed: pip install 'coregate[study]'"


def missing() -> str:
    """Empty, or what is missing and the command that brings it."""
    return "" if find_spec("matplotlib") else ABSENT


def draw(found: Study, folder: Path) -> list[str]:
    """Write one SVG of false alarms and, where work was injected, one of detection; their names."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "coregate"  # the same data gives the same file
    names = [_save(_alarms(found), folder, f"{found.machine_class}-alarms.svg")]
    return [*names, _save(_detection(found), folder, f"{found.machine_class}-detection.svg")] if found.levels else names


def _save(figure: Any, folder: Path, name: str) -> str:
    import matplotlib.pyplot as plt

    figure.savefig(folder / name, metadata={"Date": None})
    plt.close(figure)
    return name


def _axes(found: Study, what: str) -> tuple[Any, list[Any]]:
    """One panel a metric, side by side."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(found.metrics), figsize=(6 * len(found.metrics), 4), sharey=True, squeeze=False, layout="constrained"
    )
    figure.suptitle(f"{found.machine_class}: {what}, {len(found.runs)} runs of {len(found.cases)} cases")
    for axis, metric in zip(axes[0], found.metrics, strict=True):
        axis.set_title(f"{metric}, baseline of {max(found.together)} runs")
        axis.grid(alpha=0.3)
    return figure, list(axes[0])


def _alarms(found: Study) -> Any:
    figure, axes = _axes(found, "false alarms of a whole run")
    for axis, metric in zip(axes, found.metrics, strict=True):
        ours_last = [one for one in found.of(metric, max(found.together)) if one.drawn][::-1]
        shares = [one.drawn.share for one in ours_last if one.drawn]
        low = [one.drawn.share - one.drawn.low for one in ours_last if one.drawn]
        high = [one.drawn.high - one.drawn.share for one in ours_last if one.drawn]
        axis.barh([one.rule for one in ours_last], shares, xerr=[low, high], capsize=3)
        axis.axvline(0.01, linestyle=":", color="black")
        axis.set_xlabel("share of runs (dotted: 1 %)")
        axis.set_xlim(0, 1)
    return figure


def _detection(found: Study) -> Any:
    figure, axes = _axes(found, "injected slowdowns that are caught")
    for axis, metric in zip(axes, found.metrics, strict=True):
        for one in found.of(metric, max(found.together)):
            levels = sorted(one.caught)
            rates = [one.caught[level] for level in levels]
            lines = axis.plot(levels, [rate.share for rate in rates], marker="o", label=one.rule)
            low, high = [rate.low for rate in rates], [rate.high for rate in rates]
            axis.fill_between(levels, low, high, color=lines[0].get_color(), alpha=0.1)
        axis.set_xscale("log")
        axis.set_xticks(found.levels, [f"{level:.0%}" for level in found.levels])
        axis.minorticks_off()
        axis.set_xlabel("extra work")
        axis.set_ylim(0, 1)
    axes[0].set_ylabel("share caught, mean over cases")
    axes[-1].legend(fontsize="small")
    return figure
