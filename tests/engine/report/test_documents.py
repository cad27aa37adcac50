"""JSON by lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perf.report.documents import dump


def test_what_holds_nothing_deeper_is_one_line() -> None:
    nodes = [{"op": "Add"}, {"op": "Müll", "on": [1, 2]}]
    document = {"schema": 1, "rows": [{"name": "a", "nodes": nodes}, {}], "made": {}}
    assert (
        dump(document)
        == """\
{
 "schema": 1,
 "rows": [
  {
   "name": "a",
   "nodes": [
    {"op": "Add"},
    {
     "op": "Müll",
     "on": [1, 2]
    }
   ]
  },
  {}
 ],
 "made": {}
}
"""
    )


@pytest.mark.parametrize(
    "document",
    [{}, [], [[]], {"a": None}, {"a": {"b": {"c": 'x\n{["'}}}, [1.5, True, {"é": [{"": ()}]}], {"a": [[1], [[2]]]}],
)
def test_it_is_the_same_document(document: Any) -> None:
    assert json.loads(dump(document)) == json.loads(json.dumps(document))
