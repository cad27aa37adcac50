"""The run beside its baseline: what is loaded at its start, judged at its end, said to the user, and its exit
status."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import starmap
from pathlib import Path
from typing import Any

from perf.check.inductor import CACHE_NOTE, COMPILED
from perf.confirm import Command
from perf.contract import Skip
from perf.errors import CoregateError
from perf.interrupts import Interrupts
from perf.judgement import Judgement, judge
from perf.outcome import FAILING, LATENCY, Verdict, Word, undecided
from perf.outputs import check_outputs, keep_going
from perf.ratchet import Ratchet
from perf.report.cases import case_table, plural, skip_lines
from perf.report.coldstart import coldstart_table
from perf.report.graphs import graph_table, write_json
from perf.report.grouped import Teller, Told, grouped, one_by_one
from perf.report.lengths import lengths_table
from perf.report.markdown import write_report
from perf.report.placement import placement_table, write_placements
from perf.report.quantized import quantised_table
from perf.session import Session
from perf.store.baselines import Run, load
from perf.store.benchmark_storage import Storage

DEFAULT_STORAGE = "file://./.benchmarks"
BROKEN_OFF, USAGE, UNDECIDED = 2, CoregateError.exit_code, 6
NOT_COMPARED = frozenset({Word.NEW, Word.INCOMPARABLE})


@dataclass
class Gate:
    """`baseline` are the accepted runs of this machine class; `problems` are errors met too late to stop the run."""

    run: Session
    plain: Any
    baseline: list[Run]
    ratchet: Ratchet
    again: Command
    judged: Judgement = field(default_factory=Judgement)
    problems: list[str] = field(default_factory=list)
    interrupts: Interrupts = field(default_factory=Interrupts)

    @classmethod
    def open(cls, run: Session, plain: Any, again: Command) -> Gate:
        """Load the baseline and point pytest-benchmark's session (`plain`) at our folders. `again` starts this run
        anew.

        Raises:
            CoregateError: a baseline file is damaged, or what the run is to write cannot be written.
        """
        storage = _storage(run, plain)
        baseline = _chosen(storage, run.options.compare) if run.options.comparing else []
        gate = cls(run, plain, baseline, Ratchet.open(run), again)
        check_outputs(run.options, plain, storage)
        keep_going(plain, gate.problems)
        run.controls.wanted = bool(run.options.comparing or plain.save or plain.autosave or plain.json)
        plain.storage, plain.machine_id = storage, run.machine_class
        if run.options.compare and gate.baseline:
            plain.compared_mapping = storage.newest([accepted.path for accepted in gate.baseline])
        return gate

    @property
    def verdicts(self) -> list[Verdict]:
        return self.judged.verdicts

    @property
    def _lacking(self) -> list[Skip]:
        """Cases that this machine could run with more installed or attached."""
        return [skip for skip in self.run.not_run if skip.lacking]

    def finish(self, status: int) -> int:
        """Judge, and write what was asked for: the exit status, where pytest's own is `status`. Who interrupts a run,
        before or while it finishes, does not wait for suspects to be measured again."""
        self.run.give_up()
        if self.run.options.comparing and self.baseline:
            looks = self.run.options.confirm if status != BROKEN_OFF else 0
            self.judged = judge(self.run, self.baseline, self.again, looks, self.interrupts)
        self._write()
        return BROKEN_OFF if self.interrupts.seen else self.exit_status(status)

    def _write(self) -> None:
        """And keep pytest-benchmark's own table back where every benchmark is a case of ours."""
        self.problems += [*self.judged.problems, *filter(None, [self.plain.storage.refused])]
        self._try(self.ratchet.finish)
        if self.run.rows and len(self.run.rows) == len(self.plain.benchmarks) and not self.plain.verbose:
            self.plain.quiet = True
        if self.run.options.graph_report:
            self._try(write_json, self.run.options.graph_report, list(self.run.graphs.items()), self.run.made)
        if self.run.options.placement_report:
            found = list(self.run.placements.items())
            self._try(write_placements, self.run.options.placement_report, found, self.run.made)
        if self.run.options.report:
            title = f"coregate: {self.run.machine_class}"
            self._try(write_report, self.run.options.report, title, list(self.sections(one_by_one)))

    def exit_status(self, status: int) -> int:
        """1 beats all but interruption and errors; then 4 for what could not be compared or written, then 6 for what
        could not be told."""
        if status not in (0, 5):
            return status
        if self.ratchet.failed or any(found.word in FAILING for found in self.verdicts):
            return 1
        if self.run.options.require_baseline and not self.baseline:
            return 1
        if self.run.options.strict_catalogue and self._lacking:
            return 1
        nothing = self.run.options.comparing and not self.run.rows
        if self.problems or nothing or self._unanswered:
            return USAGE
        return UNDECIDED if undecided(self.verdicts) and self.run.options.inconclusive == "fail" else status

    def sections(self, tell: Teller = grouped) -> Iterator[tuple[str, list[str]]]:
        """Title and lines of each table. `tell` is how what does not fail the run is told: at length in a report."""
        if self.run.graphs:
            yield "coregate: graphs", graph_table(list(self.run.graphs.items()))
        if self.run.placements:
            yield "coregate: placement", placement_table(list(self.run.placements.items()))
        timed = {key: row for key, row in self.run.rows.items() if LATENCY in row.metrics}
        if timed or self.verdicts or self.run.left_out:
            yield f"coregate: {self.run.machine_class}", case_table(timed, self.verdicts, self.run.left_out, tell)
        lengths = lengths_table(timed, *self._shapes_and_families())
        if lengths:
            yield "coregate: by shape", lengths
        quantised = quantised_table(timed, self.run.checked) if timed else []
        if quantised:
            yield "coregate: quantised", quantised
        if self.run.starts:
            yield "coregate: cold start", coldstart_table(self.run.starts)
        if self.run.not_run and (self.run.asked or self._strict_words()):
            yield "coregate: not run", [*skip_lines(self.run.not_run), *self._strict_words()]
        if counters := self.ratchet.lines(tell):
            yield "coregate: counters", counters
        if self.run.workbench.ledger.seconds:
            yield "coregate: cost", self._cost()
        said = [*self._baseline_words(tell), *(f"error: {problem}" for problem in self.problems)]
        if said:
            yield "coregate: baseline", said

    def _cost(self) -> list[str]:
        """What the run's time went into, and what of it was neither importing, building, checking nor measuring."""
        ledger = self.run.workbench.ledger
        spent = ", ".join(f"{name} {value:.0f} s" for name, value in sorted(ledger.seconds.items()) if value >= 0.5)
        return [
            f"harness {ledger.harness_share:.0%} of {ledger.wall_s:.0f} s{f'; {spent}' if spent else ''}",
            *self._compiled_again(),
        ]

    def _compiled_again(self) -> list[str]:
        """Of what was compiled beforehand what Inductor did not find in its cache."""
        timed = self.run.compiled & self.run.rows.keys()
        again = [key for key in sorted(timed) if COMPILED in self.run.rows[key].notes.get(CACHE_NOTE, "")]
        told = f"compiled beforehand, and compiled again: {len(again)} of {len(timed)}"
        return [f"{told}, the first {again[0]}"] if again else []

    def _shapes_and_families(self) -> tuple[dict[tuple[str, str], list[str]], dict[str, str]]:
        """The shapes of each core's presets, in their order, and each variant's family."""
        catalogue = self.run.catalogue
        presets = ((core, name, preset) for core in catalogue.cores.values() for name, preset in core.presets.items())
        shapes = {(core.name, name): [shape.name for shape in preset.shapes] for core, name, preset in presets}
        return shapes, {name: variant.family for name, variant in catalogue.variants.items()}

    def _strict_words(self) -> list[str]:
        if not (self.run.options.strict_catalogue and self._lacking):
            return []
        return [f"--strict-catalogue: {plural(len(self._lacking), 'case')} could not run for want of something: failed"]

    @property
    def _none_compared(self) -> bool:
        """Cases were measured, and the baseline has nothing to lay beside any of them."""
        return bool(self.run.rows and self.baseline) and {found.word for found in self.verdicts} <= NOT_COMPARED

    @property
    def _unanswered(self) -> bool:
        """All is new where a comparison was required; what is new otherwise is accepted later. Another workload is
        never that."""
        incomparable = any(found.word is Word.INCOMPARABLE for found in self.verdicts)
        return self._none_compared and (incomparable or self.run.options.require_baseline)

    def _baseline_words(self, tell: Teller) -> list[str]:
        if not self.run.options.comparing:
            return []
        folder = _short(self.plain.storage.path / self.run.machine_class, self.run.options.root)
        record = f"Record one: the same command with --benchmark-save=NAME (into {folder})"
        if not self.baseline:
            return [f"no baseline for machine class {self.run.machine_class}: nothing was compared.", record]
        if not self.run.rows and not self.run.left_out:
            return [
                "no case was timed: nothing was compared. Run the latency suite: pytest perf/suites --benchmark-compare"
            ]
        runs = f"{plural(len(self.baseline), 'accepted run')} in {folder}"
        if self._none_compared:
            return [f"not one case was compared: {runs} of none of them, or of another workload.", record]
        return [
            f"compared with {runs}",
            *filter(None, [self.judged.machine and f"the machine moved: control {self.judged.machine}"]),
            *tell("drift", list(starmap(Told, self.judged.drifts))),
        ]

    def _try(self, action: Any, *arguments: Any) -> None:
        try:
            action(*arguments)
        except CoregateError as error:
            self.problems.append(str(error))


def _storage(run: Session, plain: Any) -> Storage:
    """The user's `--benchmark-storage` where one is given, for reading and writing; else our folders."""
    chosen = plain.config.option.benchmark_storage
    own = run.options.root / ".benchmarks"
    if chosen != DEFAULT_STORAGE:
        folder = Path(chosen.removeprefix("file://"))
        return Storage(folder, folder, run.machine_class, plain.logger, accepts=False)
    accepts = bool(plain.save)
    target = run.options.baselines if accepts else own
    return Storage(run.options.baselines, target, run.machine_class, plain.logger, accepts)


def _chosen(storage: Storage, compare: str | bool | None) -> list[Run]:
    """All accepted runs of this class; those whose number or file `--benchmark-compare=X` names, where it names any."""
    folder = storage.path / storage.default_machine_id
    runs = load(folder)
    if not isinstance(compare, str):
        return runs
    named = [run for run in runs if run.path.name.startswith(compare) or run.path.resolve() == Path(compare).resolve()]
    if not named:
        have = ", ".join(run.path.stem for run in runs) or "none"
        raise CoregateError(f"--benchmark-compare={compare}: no such run in {folder}; there: {have}")
    return named


def _short(path: Path, root: Path) -> str:
    """As seen from `root`. `path` is resolved."""
    return str(path.relative_to(root.resolve())) if path.is_relative_to(root.resolve()) else str(path)
