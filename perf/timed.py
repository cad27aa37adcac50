"""What takes time, measured on what is right: latency, starts in fresh processes, weights read from files."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from perf import fresh, warmup
from perf.backends.deployed import Deployed
from perf.check.parity import Parity
from perf.contract import Case, LoadSubject
from perf.errors import UnsupportedError, first_line
from perf.measure.device import cold_cache, release, synchronise
from perf.measure.fresh_load import fresh_load
from perf.measure.kernels import attach
from perf.measure.limit import forms, limit_s, moved_bytes
from perf.measure.meters import COUNTS, host_s, measure_all, meters
from perf.measure.nvml import CardWatch, open_card
from perf.measure.nvml import notes as card_notes
from perf.measure.processor import ProcessorWatch, around
from perf.measure.rounds import Rounds, take_rounds
from perf.measure.sampling import WITHIN
from perf.measure.trace import keep_trace, trace_file
from perf.modules import build_module
from perf.outcome import Row
from perf.session import Session
from perf.store.rows import FIELD, to_extra_info
from perf.weights import loader

LEAST_ERROR, LEAST_LOSS = 1e-4, 0.01


def time_case(run: Session, case: Case, benchmark: Any) -> str:
    """Sample the latency of a case that is at parity into pytest-benchmark's fixture, then let the meters measure what
    else it takes. Empty, or why it was not.
    """
    found = run.parity_or_none(case)
    if found is None:
        benchmark.skipped = True  # else pytest-benchmark warns that its fixture was not used
        return run.left_out[case.key]
    benchmark.fullname, benchmark.name = case.key, case.key
    benchmark.group = f"{case.core}/{case.preset}/{case.shape}/{case.device}"
    watch = CardWatch(open_card(case.device))
    run.time_controls(case.device)
    processor = ProcessorWatch()
    with run.workbench.ledger.span("sampling"):
        rounds = _sample(run, case, benchmark, watch)
    if rounds is not None:
        with run.workbench.ledger.span("metering"):
            measured = _meter(run, case, watch)
        notes = {
            **rounds.notes(),
            **card_notes(watch.states),
            **processor.notes(),
            "parity": _parity_words(run, case, found),
        }
        notes |= _limit_notes(run, case)
        _keep(run, case, benchmark, measured, notes)
        _trace(run, case)
    return ""


def _sample(run: Session, case: Case, benchmark: Any, watch: CardWatch) -> Rounds | None:
    runner, prepared = run.workbench.built(case).runner, run.workbench.timed(case)

    def call() -> None:
        runner.run(prepared)
        synchronise(case.device)

    if case.device == "cuda":
        attach()
    return take_rounds(benchmark, call, WITHIN[case.device], before=cold_cache(case.device), slowed=watch.slowed)


def _meter(run: Session, case: Case, watch: CardWatch) -> dict[str, float]:
    """The meters wait for the device themselves: some count the call alone."""
    runner, prepared = run.workbench.built(case).runner, run.workbench.timed(case)
    release(case.device)  # what emptying the cache took
    return measure_all(meters(case.device, watch.card), lambda: runner.run(prepared))


def _trace(run: Session, case: Case) -> None:
    """Where `--traces` asks for one, after all that is measured and kept: what goes wrong here is told, and no more."""
    folder = run.options.traces
    if folder is None:
        return
    runner, prepared = run.workbench.built(case).runner, run.workbench.timed(case)
    try:
        with run.workbench.ledger.span("tracing"):
            keep_trace(lambda: runner.run(prepared), case.device, trace_file(folder, case.key))
    except Exception as error:
        warnings.warn(f"{case.key}: no trace was kept: {first_line(error)}", stacklevel=1)


def _keep(run: Session, case: Case, benchmark: Any, measured: dict[str, float], notes: dict[str, str]) -> None:
    built, stats = run.workbench.built(case), benchmark.stats.stats
    counted = {name: int(measured.pop(name)) for name in COUNTS & measured.keys()}
    row = Row(
        key=case.key,
        metrics={"latency_s": stats.median, **measured, **host_s(stats.median, measured), **quality(run, case)},
        counters={**built.counters(case.shape), **counted},
        notes={
            **built.runner.notes(),
            **built.came.get(case.shape, {}),
            **notes,
            "iqr_s": f"{stats.iqr:.3e}",
            "seed": str(run.options.seed),
        },
        workload=run.workload(case),
    )
    benchmark.extra_info[FIELD] = to_extra_info(row)
    run.rows[case.key] = row


def _limit_notes(run: Session, case: Case) -> dict[str, str]:
    """What a call must do at the least, and how soon this machine could have done it; where its ceilings are known."""
    ceilings = run.controls.ceilings
    cost = run.workbench.cost(case) if ceilings else None
    if cost is None:
        return {}
    form = forms(run.workbench.describe(case)[2])
    limit = limit_s(cost, form, ceilings)
    counted = {"flops": f"{cost.flops:.6g}", "moved_bytes": f"{moved_bytes(cost, form):.6g}"}
    return counted if limit is None else {**counted, "limit_s": f"{limit:.6e}"}


def quality(run: Session, case: Case) -> dict[str, float]:
    """Of a lossy variant, what it loses: the error's share of the signal, and what the task lacks of 1. It may be above
    the core's floor and yet far from what it was. Never 0, which nothing can be compared with: what is smaller than
    `LEAST_ERROR` and `LEAST_LOSS` is as good as nothing."""
    found = run.checked[case.key]
    if not run.catalogue.variants[case.variant].lossy:
        return {}
    lost = {} if found.task is None or found.task > 1 else {"task_loss": max(1 - found.task, LEAST_LOSS)}
    return {"relative_error": max(10 ** (-found.sqnr_db / 20), LEAST_ERROR), **lost}


def _parity_words(run: Session, case: Case, found: Parity) -> str:
    """Error and limit, as the case's variant is judged: quantised ones by SQNR against the core's floor."""
    core, _, variant, _ = run.workbench.describe(case)
    if variant.lossy:
        return f"{found.sqnr_db:.1f} ≥ {core.tolerance.sqnr_db:.1f} dB"
    return f"{found.error:.1e} ≤ {found.limit:.1e}"


def start_cold(run: Session, case: Case, benchmark: Any) -> str:
    """Start a case cold, warm and from artefacts, in processes of their own. Empty, or why it was not."""
    if run.parity_or_none(case) is None:
        benchmark.skipped = True
        return run.left_out[case.key]
    run.time_controls(case.device)
    loads = _loads(run, case)
    run.workbench.close()
    benchmark.fullname = benchmark.name = key = f"{case.key}#coldstart"
    try:
        with run.workbench.ledger.span("sampling"), around() as others:
            found = replace(benchmark.pedantic(fresh.start, args=(_fresh_spec(run, case),)), loads=loads)
    except fresh.ChildError as error:
        run.left_out[key] = str(error)
        return str(error)
    run.starts[key] = found
    notes = {**fresh.as_notes(found), **others}
    run.rows[key] = Row(key, fresh.as_metrics(found), notes=notes, workload=run.workload(case))
    benchmark.extra_info[FIELD] = to_extra_info(run.rows[key])
    return ""


def _fresh_spec(run: Session, case: Case) -> fresh.Spec:
    options = run.options
    return fresh.Spec(
        root=str(options.root),
        core_folders=tuple(map(str, options.core_folders)),
        variant_folders=tuple(map(str, options.variant_folders)),
        key=case.key,
        seed=options.seed,
        weights={core: str(Path(path).resolve()) for core, path in options.weights.items()},
        weights_module=options.weights_module,
    )


def request_after_warmup(run: Session, case: Case, benchmark: Any) -> str:
    """Time the case's first call after a warm-up at its preset's last other shape, and after one at its own, in
    processes of their own. Empty, or why it was not.

    Raises:
        UnsupportedError: no warm-up can be wrong: the preset has no other shape, or the variant is built for one.
    """
    _, preset, variant, _ = run.workbench.describe(case)
    others = [shape.name for shape in preset.shapes if shape.name != case.shape]
    if variant.fixed_shape or not others:
        raise UnsupportedError("one shape is all that is built: no warm-up at another can be tried")
    if run.parity_or_none(case) is None:
        benchmark.skipped = True
        return run.left_out[case.key]
    run.time_controls(case.device)
    run.workbench.close()
    benchmark.fullname = benchmark.name = key = f"{case.key}#warmup"
    try:
        with run.workbench.ledger.span("sampling"), around() as busy:
            found = benchmark.pedantic(warmup.requests, args=(_fresh_spec(run, case), case.shape, others[-1]))
    except fresh.ChildError as error:
        run.left_out[key] = str(error)
        return str(error)
    notes = {"mismatched_shape": others[-1], **busy}
    row = Row(key, warmup.as_metrics(found), warmup.as_counters(found), notes, run.workload(case))
    benchmark.extra_info[FIELD] = to_extra_info(row)
    run.rows[key] = row
    return ""


def _loads(run: Session, case: Case) -> dict[str, float]:
    """Seconds to load what the variant left on disk, each in a process of its own; `library_import_s` is what comes
    before. Empty where it leaves nothing that runs without its module."""
    runner = run.workbench.built(case).runner
    if not isinstance(runner, Deployed):
        return {}
    with TemporaryDirectory(prefix="coregate-deployed-") as folder:
        ways, scratch = runner.loadings(Path(folder)), Path(folder)
        found = {name: fresh_load(way.setting_up, way.loading, way.arguments, scratch) for name, way in ways.items()}
    imports = min(load.import_s for load in found.values())
    return {"library_import_s": imports, **{name: load.load_s for name, load in found.items()}}


def load_weights(run: Session, subject: LoadSubject, benchmark: Any, folder: Path) -> None:
    """Time reading a preset's weights from a file into its module, `.pt` or `.safetensors`, straight to the device.

    Raises:
        UnsupportedError: the core has none.
    """
    preset = run.catalogue.cores[subject.core].presets[subject.preset]
    module = build_module(preset, subject.device, "float32")
    if not module.state_dict():
        raise UnsupportedError("the core has no weights to load")
    path, weights = str(folder / f"weights{subject.suffix}"), loader(run.options.weights_module)
    weights.save_as(module, path)
    benchmark.fullname = benchmark.name = subject.key
    benchmark.group = f"{subject.core}/{subject.preset}/weights/{subject.device}"
    run.time_controls(subject.device)
    processor = ProcessorWatch()
    with run.workbench.ledger.span("sampling"):
        benchmark(weights.load_into, module, path)
    if benchmark.stats is not None:
        size = {"bytes_on_disk": Path(path).stat().st_size}
        row = Row(subject.key, {"load_s": benchmark.stats.stats.median}, size, processor.notes())
        benchmark.extra_info[FIELD] = to_extra_info(row)
        run.rows[row.key] = row
