"""Cold and warm start: a case in a process of its own, from nothing to its first result.

Run as `python -m perf.fresh SPEC.json RESULT.json`, it imports, builds, calls once, calls again, and writes what each
took. `start` does so three times for a case: with empty caches, with the caches that the first left, and with empty
caches and the first's compile artefacts (`torch.compiler.save_cache_artifacts`).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from perf import children

if TYPE_CHECKING:
    from perf.workbench import Workbench

LATER_CALLS = 5
CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "COREGATE_CACHE": "coregate"}


@dataclass(frozen=True)
class Spec:
    """What a child needs: where cores and variants lie, the case, the seed, each core's checkpoint with the module that
    loads it, and artefacts to read or write.
    """

    root: str
    core_folders: tuple[str, ...]
    variant_folders: tuple[str, ...]
    key: str
    seed: int
    weights: Mapping[str, str] = field(default_factory=dict)
    weights_module: str = ""
    load_artifacts: str = ""
    save_artifacts: str = ""


@dataclass(frozen=True)
class Start:
    """Seconds of one start, one after the other; `rss_peak_bytes` is the process's at its end. `later_call_s` is the
    median of the calls after the first.
    """

    import_s: float
    build_s: float
    first_call_s: float
    later_call_s: float
    rss_peak_bytes: int
    artifact_bytes: int = 0

    @property
    def ready_s(self) -> float:
        """From an interpreter with its libraries loaded to the first result."""
        return self.build_s + self.first_call_s


@dataclass(frozen=True)
class ColdStart:
    """`from_artifacts` is None where the variant leaves no compile artefacts. `loads` are seconds to load what it
    leaves on disk, by metric (`perf.measure.fresh_load`)."""

    cold: Start
    warm: Start
    from_artifacts: Start | None
    loads: Mapping[str, float] = field(default_factory=dict)


class ChildError(Exception):
    """The child failed: what killed it, or the last line that it wrote."""


def start(spec: Spec) -> ColdStart:
    """Three fresh processes, each after the other; every cache lies in a folder that is removed afterwards.

    Raises:
        ChildError: one of them failed.
    """
    with tempfile.TemporaryDirectory(prefix="coregate-cold-") as folder:
        base = Path(folder)
        artifacts = base / "artifacts"
        fields = asdict(spec)
        cold = _child(Spec(**(fields | {"save_artifacts": str(artifacts)})), base, "one")
        warm = _child(spec, base, "one")
        if not artifacts.exists():
            return ColdStart(cold, warm, None)
        return ColdStart(cold, warm, _child(Spec(**(fields | {"load_artifacts": str(artifacts)})), base, "two"))


def _child(spec: Spec, scratch: Path, caches: str) -> Start:
    return Start(**told_by("perf.fresh", spec, scratch, caches))


def told_by(module: str, spec: Spec, scratch: Path, name: str) -> dict[str, Any]:
    """What `python -m MODULE SPEC.json RESULT.json` writes, run with every cache in the folder `name` of `scratch`.

    Raises:
        ChildError: it failed.
    """
    caches = scratch / name
    caches.mkdir(exist_ok=True)
    asked, told = caches / "spec.json", caches / "result.json"
    asked.write_text(json.dumps(asdict(spec)))
    variables = {name: str(caches / folder) for name, folder in CACHES.items()}
    places = filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
    command = [sys.executable, "-m", module, str(asked), str(told)]
    child = children.run(command, scratch, Path(spec.root), {**variables, "PYTHONPATH": os.pathsep.join(places)})
    if child.returncode:
        raise ChildError(children.failure(child))
    found: dict[str, Any] = json.loads(told.read_text())
    return found


def payback_calls(variant: Start, eager: Start) -> int | None:
    """After how many calls a variant's longer start is paid for by its shorter calls: 0 where it starts no later, None
    where its calls are no shorter.
    """
    later, saved = variant.ready_s - eager.ready_s, eager.later_call_s - variant.later_call_s
    if later <= 0:
        return 0
    return None if saved <= 0 else int(-(-later // saved))


def main(asked: str, told: str) -> None:
    """The child's side."""
    fields: dict[str, Any] = json.loads(Path(asked).read_text())
    Path(told).write_text(json.dumps(asdict(_measured(Spec(**fields)))))


def workbench(spec: Spec) -> Workbench:
    """Where a child builds: the run's own cores with what they were given, and caches of its own."""
    from perf.catalogue import discover
    from perf.weights import loading
    from perf.workbench import Workbench

    root = Path(spec.root)
    catalogue = discover(map(Path, spec.core_folders), map(Path, spec.variant_folders), root)
    given = loading(catalogue, spec.weights, spec.weights_module)
    return Workbench(given, spec.seed, Path(os.environ["COREGATE_CACHE"]), root)


def _measured(spec: Spec) -> Start:
    begun = perf_counter()
    from perf.contract import Case
    from perf.measure.device import peak_rss_bytes, synchronise

    bench, case = workbench(spec), Case.parse(spec.key)
    imported = perf_counter()
    _load(spec.load_artifacts)
    runner, prepared = bench.built(case).runner, bench.timed(case)
    synchronise(case.device)
    built = perf_counter()
    ends = []
    for _ in range(1 + LATER_CALLS):
        runner.run(prepared)
        synchronise(case.device)
        ends.append(perf_counter())
    size = _save(spec.save_artifacts)
    later = median(after - before for before, after in pairwise(ends))
    return Start(imported - begun, built - imported, ends[0] - built, later, peak_rss_bytes(), size)


def _load(path: str) -> None:
    if path:
        import torch

        torch.compiler.load_cache_artifacts(Path(path).read_bytes())


def _save(path: str) -> int:
    """Bytes of the compile artefacts written to `path`; 0 where nothing was compiled that leaves any."""
    if not path:
        return 0
    import torch

    saved = torch.compiler.save_cache_artifacts()
    if saved is None or not saved[1].artifacts:
        return 0
    Path(path).write_bytes(saved[0])
    return len(saved[0])


def as_metrics(found: ColdStart) -> Mapping[str, float]:
    """What is kept on the row."""
    metrics = {
        "import_s": found.cold.import_s,
        "cold_s": found.cold.ready_s,
        "warm_s": found.warm.ready_s,
        "rss_peak_bytes": float(found.warm.rss_peak_bytes),
        **found.loads,
    }
    return metrics if found.from_artifacts is None else {**metrics, "artifacts_s": found.from_artifacts.ready_s}


def as_notes(found: ColdStart) -> Mapping[str, str]:
    """What is kept beside: parts of the sums, and the later call that pay-back needs. No budget judges them."""
    cold, warm = found.cold, found.warm
    return {
        "cold_first_call_s": f"{cold.first_call_s:.4e}",
        "warm_first_call_s": f"{warm.first_call_s:.4e}",
        "later_call_s": f"{warm.later_call_s:.4e}",
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
