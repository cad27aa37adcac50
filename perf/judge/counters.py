"""Counters have no noise: any change is a change. Worse fails, better asks to be accepted, neither passes unsaid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from perf.outcome import Verdict, Word

MORE_IS_BETTER = frozenset({"cudagraphs", "quantized_nodes", "quantized_percent"})
NEITHER = frozenset({"opset", "inductor_nodes", "extern_calls", "kernels"})
"""Descriptive: a change is said, and is neither worse nor better."""

HARDWARE_BOUND = frozenset({"ort_nodes", "nodes_at_all", "inductor_kernels", "kernels"})
"""Counted exactly, but they depend on the processor's or the card's instruction set, so one file for all machines
cannot hold them; they stay on the rows, beside a machine class."""

PLACED, STRAYED = "nodes_on_", "nodes_on_CPU"
"""On a CPU all nodes run there, however many ONNX Runtime lays out for its vectors; on a GPU this tells strays, and how
many of the others there are is neither here nor there."""

BY_OPERATOR = ":"
"""`nodes_at_extended:FusedGemm`: that one is gone may be the fusion undone or another made; the sum tells."""


def is_portable(key: str, name: str) -> bool:
    """Whether the counter `name` of the case or subject `key` is the same on every machine."""
    return name not in HARDWARE_BOUND and not (name.startswith(PLACED) and key.endswith("/cpu"))


def judge(key: str, now: Mapping[str, int], before: Mapping[str, int], moved: str) -> list[Verdict]:
    """A verdict for each portable counter that changed. `moved` names the software that changed since, empty where none
    did."""
    return _changed(key, now, before, moved, portable=True)


def judge_bound(key: str, now: Mapping[str, int], before: Mapping[str, int], moved: str) -> list[Verdict]:
    """The same of the other counters, beside an accepted run of the same machine class."""
    return _changed(key, now, before, moved, portable=False)


def _changed(
    key: str, now: Mapping[str, int], before: Mapping[str, int], moved: str, *, portable: bool
) -> list[Verdict]:
    names = sorted(name for name in {*now, *before} if is_portable(key, name) is portable)
    pairs = [(name, now.get(name, 0), before.get(name, 0)) for name in names]
    return [_verdict(key, name, new, old, moved) for name, new, old in pairs if new != old]


def _verdict(key: str, name: str, now: int, before: int, moved: str) -> Verdict:
    said = f"{name} {before} → {now}{f'; since then {moved}' if moved else ''}"
    if name in NEITHER or BY_OPERATOR in name or (name.startswith(PLACED) and not name.startswith(STRAYED)):
        return Verdict(key, name, Word.SAME, now, before, note=said)
    worse = _worse(name, now, before)
    return Verdict(key, name, Word.REGRESSED if worse else Word.IMPROVED, now, before, note=said)


def _worse(name: str, now: int, before: int) -> bool:
    """No graph at all is eager, and so is worse than any number of graphs."""
    if name == "graphs" and 0 in (now, before):
        return now == 0
    return (now > before) is not (name in MORE_IS_BETTER)


def software_moved(now: Mapping[str, str], before: Mapping[str, str]) -> str:
    """`torch 2.13.0 → 2.14.1, …`, of what is on both sides or on one."""
    names = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
    return ", ".join(f"{name} {before.get(name, 'absent')} → {now.get(name, 'absent')}" for name in names)


def differing_places(now: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    """What came and what went, as a diff does."""
    yield from (f"+ {line}" for line in now if line not in before)
    yield from (f"- {line}" for line in before if line not in now)
