"""What a run and its re-measurements have in common, and what their mean is held to."""

from __future__ import annotations

import math

import pytest

from perf.judge.noise import Noise
from perf.judge.suite import judge_value, shared_variance
from perf.outcome import Word

KNOWN = Noise(centre=0.0, highest=0.0, scale=0.01, df=1e9, runs=10**6)


@pytest.mark.parametrize(("percent", "word"), [([1.7, 1.9, 2.2], Word.INCONCLUSIVE), ([1.7, 3, 3], Word.REGRESSED)])
def test_where_all_variance_is_shared_a_mean_has_the_bound_of_one_run(percent: list[float], word: Word) -> None:
    """Means of 1.93 % and 2.57 %, beside 2.33 %."""
    assert judge_value([math.exp(value / 100) for value in percent], KNOWN, 0.01, 0.01, shared=1.0)[0] is word


def test_kernel_time_shares_half_and_what_waits_for_a_host_all() -> None:
    assert [shared_variance(metric) for metric in ("device_s", "latency_s", "cpu_s", "cold_s")] == [0.5, 1.0, 1.0, 1.0]
