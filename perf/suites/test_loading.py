"""How soon are weights in? `.pt` (a pickle, read with `weights_only`) beside `.safetensors` (mapped memory)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perf.contract import LoadSubject
from perf.session import Session
from perf.timed import load_weights


@pytest.mark.loading
def test_loading(load_subject: LoadSubject, gate_session: Session, benchmark: Any, tmp_path: Path) -> None:
    load_weights(gate_session, load_subject, benchmark, tmp_path)
