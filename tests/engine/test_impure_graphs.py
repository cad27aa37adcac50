"""Where TorchDynamo itself fails: a failure of a core that should be whole, a reason of one that is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from perf.catalogue import Catalogue
from perf.contract import Core, GraphSubject, Inputs, Preset, Shape, Work
from perf.errors import UnsupportedError
from perf.session import Session
from perf.workbench import Workbench

SUBJECT = GraphSubject("pipeline", "tiny", "cpu", None)


def inputs(shape: Shape, seed: int) -> Inputs:
    return {"input": torch.ones(3)}


def session(root: Path, impure: str) -> Session:
    preset = Preset(nn.ReLU, inputs, (Shape("s", {}),))
    core = Core("pipeline", "a toy", "here", {"tiny": preset}, ("y",), lambda shape: Work("rows", 3))
    catalogue = Catalogue({"pipeline": replace(core, impure=impure)}, {})
    options: Any = SimpleNamespace(root=root, seed=0)
    return Session(options, catalogue, [], [], Workbench(catalogue, 0, root, root))


def test_dynamos_own_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = AssertionError("Guard failed on the same frame it was created. This is a bug.\nGuard fail reason: …")
    monkeypatch.setattr("perf.session.count_graphs", Mock(side_effect=broken))
    with pytest.raises(UnsupportedError) as skipped:
        session(tmp_path, "a loop over numpy's numbers").count_graphs(SUBJECT)
    assert str(skipped.value) == (
        "TorchDynamo fails on this impure core: "
        "AssertionError: Guard failed on the same frame it was created. This is a bug."
    )
    with pytest.raises(AssertionError):
        session(tmp_path, "").count_graphs(SUBJECT)
