"""What a run says while a test is at work is not the test's."""

from __future__ import annotations

import pytest

TEST = """
from perf.terminal import teller


def test_that_takes_long(request):
    print("its own")
    teller(request.config)("compiled 1 of 2")
"""


@pytest.mark.parametrize("ways", [(), ("-s",), ("--capture=sys",), ("-p", "no:terminal", "-s")])
def test_a_line_is_told_from_within_a_test(pytester: pytest.Pytester, ways: tuple[str, ...]) -> None:
    pytester.makepyfile(TEST)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *ways)
    assert result.ret == 0
    assert "compiled 1 of 2" in result.outlines
    assert ("its own" in result.stdout.str()) is ("-s" in ways)
