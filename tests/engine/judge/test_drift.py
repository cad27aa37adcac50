"""How far a metric has come since the oldest accepted run, beside steps and orders counted by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perf.judge.drift import drift, drift_line
from perf.judge.noise import estimate
from perf.judge.suite import judge_value
from perf.outcome import Word


def test_twenty_steps_of_one_percent_are_seen_as_twenty() -> None:
    history = [1.01**i for i in range(20)]
    found = drift(history, 1.01**20)
    assert found.from_oldest == pytest.approx(1.01**20 - 1)  # 22.0 %
    assert (found.from_newest, found.per_run) == pytest.approx((0.01, 0.01))
    assert drift_line(found, 0.05) == (
        "+22.0% since the oldest of 20 accepted runs, +1.0% since the newest; a trend of +1.0% a run"
    )
    assert judge_value(1.01**20, estimate({"one": history})["one"], 0.05, 0.01)[0] is Word.INCONCLUSIVE


def test_one_odd_oldest_run_is_no_trend() -> None:
    found = drift([0.8, 1.0, 1.01, 0.99, 1.0, 1.0], 1.0)
    assert not found.is_trend
    assert drift_line(found, 0.05).endswith("; no steady trend")


def test_within_the_budget_no_drift_is_told() -> None:
    assert drift_line(drift([1.0, 1.01, 1.02], 1.03), 0.05) == ""
    assert drift_line(drift([1.0], 1.0), 0.0) == ""


def test_chance_of_a_trend_is_kendalls() -> None:
    """Five values in perfect order: 2 of 5! orders. Equal values: no order at all."""
    assert drift([1.0, 2.0, 3.0, 4.0], 5.0).chance == pytest.approx(2 / 120)
    assert drift([5.0, 4.0, 3.0, 2.0], 1.0).is_trend
    assert drift([1.0, 1.0, 1.0], 1.0).chance == 1.0


def test_within_the_budget_no_statistics_are_imported() -> None:
    """In a process of its own: other tests have them imported."""
    code = (
        "import sys; from perf.judge.drift import drift, drift_line; "
        "print(drift_line(drift([1.0, 1.0, 1.0], 1.01), 0.05) == '', 'scipy.stats' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "False"]
