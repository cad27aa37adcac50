"""Serving plans: one that covers, and one that does not, with the guard that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Project


@pytest.mark.parametrize(("warmup", "covers"), [(("b5", "b9"), True), (("b5",), False)])
def test_a_plan_covers_or_names_the_guard(project: Project, warmup: tuple[str, ...], covers: bool) -> None:
    path = project.path / "mycores/toy.py"
    plan = f"plan=ServingPlan({warmup!r}, ('b9', 'b5')),"
    text = path.read_text().replace("import Axis,", "import ServingPlan, Axis,")
    path.write_text(text.replace('system="a toy",', f'system="a toy", {plan}'))
    result = project.run("-m", "recompiles")
    assert result.ret == (0 if covers else 1)
    if not covers:
        result.stdout.fnmatch_lines(["*toy/tiny: serving compiles 1 more graphs: *size mismatch*"])
