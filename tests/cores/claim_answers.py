"""The answers of this repository's claims to made-up rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from perf.claims.command import read_claims
from perf.claims.words import Answer, Proof
from perf.outcome import Row
from tests.engine.claim_toys import reading, row

ROOT = Path(__file__).parents[2]
CLAIMS = {claim.name: claim for claim in read_claims(ROOT, [ROOT / "fixtures" / "claims"])}


def answer(name: str, rows: Iterable[Row], device: str = "cpu") -> Answer:
    how = CLAIMS[name].answer
    assert not isinstance(how, Proof)
    return how(reading(*rows, device=device))


def graphs(core: str, breaks: int, made: int = 1) -> Row:
    return row(f"graphs:{core}/tiny/cpu/dynamic=None", graphs=made, graph_breaks=breaks)


def start(variant: str, cold_s: float, later_s: float) -> Row:
    key = f"flux-clip/tiny/{variant}/s/cpu#coldstart"
    notes = {"later_call_s": str(later_s)}
    return row(key, notes=notes, cold_s=cold_s, warm_s=cold_s / 2, import_s=3.0, rss_peak_bytes=1e9)
