"""What one run knows: its cases, the workbench they are built on, and what came of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from perf import fresh
from perf.budgets import check_budgets
from perf.catalogue import DEVICES, Catalogue, discover, expand, select
from perf.check.graph_report import GraphReport
from perf.check.parity import Parity
from perf.check.placement import Placement, place
from perf.contract import Case, Skip
from perf.disturbance import disturbed
from perf.errors import CoregateError, CrashError, UnsupportedError, first_line
from perf.measure import machine
from perf.measure.ceilings import measure_ceilings
from perf.measure.controls import ControlWatch
from perf.measure.device import available_device, free_heap
from perf.measure.ledger import Ledger
from perf.options import Options
from perf.outcome import Row
from perf.store.counters import Counted
from perf.weights import with_weights
from perf.workbench import Workbench
from perf.workload import workload


@dataclass(frozen=True)
class Crash:
    """What ended a process that was at a case. `whole`: as soon as its variant was built, or called at first."""

    why: str
    whole: bool


class Background(Protocol):
    """What other processes do for a run, until it waits for them (the keys of what they did) or stops them; and by key
    what ended one of them."""

    @property
    def crashed(self) -> Mapping[str, Crash]: ...

    def wait(self) -> Iterable[str]: ...

    def stop(self) -> None: ...


@dataclass
class Session:
    """Made once the plugin knows its options; fills up as the suites run; read by the verdicts and the report.

    `left_out` maps the key of a case that should have been timed and was not to the reason; `unsupported` has by key,
    of a case or of what else is measured of it, what was found out to be impossible here; `added` is what serving
    adds to `graphs`, where both were counted at once; `budgets` are those of the tests (`perf_budget`) by key;
    `background` is what compiles before anything is timed, `compiled` the keys of what was compiled there; `controls`
    are timed where the run is kept or compared.
    """

    options: Options
    catalogue: Catalogue
    cases: list[Case]
    skips: list[Skip]
    workbench: Workbench
    rows: dict[str, Row] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    checked: dict[str, Parity] = field(default_factory=dict)
    unsupported: dict[str, Skip] = field(default_factory=dict)
    starts: dict[str, fresh.ColdStart] = field(default_factory=dict)
    graphs: dict[str, GraphReport] = field(default_factory=dict)
    added: dict[str, GraphReport] = field(default_factory=dict)
    background: Background | None = None
    compiled: set[str] = field(default_factory=set)
    placements: dict[str, Placement] = field(default_factory=dict)
    counted: dict[str, Counted] = field(default_factory=dict)
    budgets: dict[str, Mapping[str, float]] = field(default_factory=dict)
    controls: ControlWatch = field(default_factory=lambda: ControlWatch(survey=measure_ceilings))
    asked: bool = False
    """Whether the run is about cases at all, those that cannot run included."""

    @classmethod
    def start(cls, options: Options, ledger: Ledger | None = None) -> Session:
        """Discover and expand. `ledger` is one that was opened before, where there is one.

        Raises:
            CoregateError: a core or variant file is broken, a budget is none, a name is unknown, or a CUDA device is
                asked for and there is none.
        """
        patterns = (available_device(),) if options.default_device else options.selection.devices
        devices = tuple(select(DEVICES, patterns)) or patterns
        options = replace(options, selection=replace(options.selection, devices=devices))
        if devices == ("cuda",) and available_device() != "cuda":
            raise CoregateError(
                "--device cuda: torch finds no CUDA device here (nvidia-smi says more): name cpu, or no device"
            )
        ledger = ledger or Ledger()
        with ledger.span("importing"):
            found = discover(options.core_folders, options.variant_folders, options.root)
        for core in found.cores.values():
            check_budgets(core.budgets, f"core {core.name}: budgets")
        catalogue = with_weights(found, options.weights, options.weights_module, options.selection.presets)
        cases, skips = expand(catalogue, options.selection)
        workbench = Workbench(catalogue, options.seed, options.cache, options.root, ledger)
        return cls(options, catalogue, cases, skips, workbench)

    @property
    def not_run(self) -> list[Skip]:
        """What could not run, known beforehand or found in building."""
        return [*self.skips, *self.unsupported.values()]

    @cached_property
    def hardware(self) -> dict[str, str]:
        """The card's, too, where cases of it were chosen and there is one."""
        return machine.hardware(available_device() if "cuda" in self.options.selection.devices else "cpu")

    @property
    def machine_class(self) -> str:
        return machine.machine_class(self.hardware)

    @property
    def made(self) -> dict[str, str]:
        """On which machine and by which command: what counts are kept with."""
        device = "cuda" if "gpu" in self.hardware else "cpu"
        return {"machine": self.machine_class, "device": device, "command": self.options.command}

    def settle(self) -> None:
        """Wait for what is done in the background, before anything is measured. What crashed there is not built here,
        where it would end the run."""
        background, self.background = self.background, None
        if background is not None:
            with self.workbench.ledger.span("precompiling"):
                self.compiled.update(background.wait())
            for key, crash in background.crashed.items():
                self.workbench.refuse(Case.parse(key), CrashError(crash.why), crash.whole)

    def give_up(self) -> None:
        """Stop what is still done in the background: the run has ended. What was left out of garbage collections is so
        no longer."""
        free_heap()
        if self.background is not None:
            self.background.stop()
            self.background = None

    def machine_info(self) -> dict[str, Any]:
        """What a run keeps of itself beside its rows: the machine, and what forbids it to become a baseline."""
        return {
            "class": self.machine_class,
            "command": self.options.command,
            "hardware": self.hardware,
            "software": machine.conditions(),
            "commit": machine.commit(self.options.root),
            "controls": self.timed_controls(),
            "ceilings": dict(self.controls.ceilings),
            "wrong": sorted(key for key in self.left_out if key not in self.rows),
            "contaminated": [
                f"{key}: {why}" for key, row in sorted(self.rows.items()) if (why := disturbed(row.notes))
            ],
        }

    def parity(self, case: Case) -> Parity:
        """Checked once; a case that is not at parity, or does not build, is left out of timing with its reason.

        Raises:
            UnsupportedError: the variant cannot run this core; the case is a skip from here on.
            CoregateError: the user has something to mend first.
        """
        try:
            found = self.workbench.parity(case)
        except UnsupportedError as reason:
            self.unsupported[case.key] = Skip(case, str(reason))
            raise
        except CoregateError:
            raise
        except Exception as error:
            self.left_out[case.key] = f"did not build: {first_line(error)}"
            raise
        self.checked[case.key] = found
        if found.ok and case.key not in self.counted and self._is_standard(case):
            built = self.workbench.built(case)
            self.counted[case.key] = Counted(built.counters(case.shape), built.places[case.shape])
        if not found.ok:
            self.left_out[case.key] = f"not at parity: {found.reason}"
        return found

    def _is_standard(self, case: Case) -> bool:
        """At its preset's first shape, where counters are those of a fresh start."""
        return case.shape == self.workbench.describe(case)[1].shapes[0].name

    def parity_or_none(self, case: Case) -> Parity | None:
        try:
            found = self.parity(case)
        except (UnsupportedError, CoregateError):
            raise
        except Exception:
            return None
        return found if found.ok else None

    def places(self, case: Case) -> bool:
        """Whether the case runs on ONNX Runtime: its variant names execution providers."""
        variant = self.catalogue.variants.get(getattr(case, "variant", ""))
        return variant is not None and "providers" in variant.options

    def place(self, case: Case) -> str:
        """Keep for the report where the case's nodes ran. Empty, or why it does not run where it was asked to.

        Raises:
            UnsupportedError: the variant cannot run this core.
        """
        try:
            runner: Any = self.workbench.built(case).runner
        except UnsupportedError as reason:
            self.unsupported[case.key] = Skip(case, str(reason))
            raise
        except Exception as error:
            return f"did not build: {first_line(error)}"
        self.placements[case.key] = place(runner)
        if self._is_standard(case):
            self.counted.setdefault(case.key, Counted(runner.counters()))
        return ""

    def workload(self, case: Case) -> str:
        core, _, variant, shape = self.workbench.describe(case)
        return workload(core, variant, shape, self.workbench.timed_inputs(case))

    def time_controls(self, device: str) -> None:
        """Before what is timed on `device`; all but the first call do nothing."""
        with self.workbench.ledger.span("controls"):
            self.controls.start(device)

    def timed_controls(self) -> dict[str, float]:
        """Seconds by control, of this run; they are timed once more when this is first asked, beside no compiler."""
        self.give_up()
        with self.workbench.ledger.span("controls"):
            return self.controls.finish()
