"""What a core says it lacks."""

from __future__ import annotations

from fixtures.needs import packages


def test_what_is_there_is_not_missing() -> None:
    assert packages(torch="torch", numpy="numpy")() is None


def test_the_first_absent_package_is_named_with_its_own_install_name() -> None:
    needs = packages(torch="torch", nowhere_to_be_found="nowhere==1.0", nor_this="nor-this")
    assert needs() == "package nowhere_to_be_found is not installed: pip install nowhere==1.0"
