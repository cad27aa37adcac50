"""Built once a session: a variant is built, checked, then measured, then freed; parity and speed judge the
same object."""

from __future__ import annotations

import math
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from perf.catalogue import Catalogue
from perf.check import parity
from perf.check.choices import as_notes, noting_choices
from perf.check.cudagraphs import CALLS_TO_CAPTURE, captured
from perf.check.graphs import watching
from perf.check.inductor import CACHE_NOTE, counting_kernels, noting_state
from perf.check.localise import localise
from perf.check.parity import Parity
from perf.contract import Blueprint, Case, Core, Cost, Inputs, Outputs, Preset, Runner, Shape, Variant
from perf.failures import Failures
from perf.measure.cost import count
from perf.measure.device import release, settle_heap
from perf.measure.ledger import Ledger
from perf.modules import Modules, build_module
from perf.precision import tf32
from perf.runners import run_eagerly, to_device

TIMED_SEED = 1
"""Of the inputs that are timed; not the one that weights are drawn from, whose numbers they would repeat."""


@dataclass
class Built:
    """A runner, its prepared inputs by shape and seed, and what its first call at each shape compiled."""

    runner: Runner
    prepared: dict[tuple[str, int], Any] = field(default_factory=dict)
    compiled: dict[str, dict[str, int]] = field(default_factory=dict)
    places: dict[str, tuple[str, ...]] = field(default_factory=dict)
    came: dict[str, dict[str, str]] = field(default_factory=dict)
    """By shape, as notes: whether what was compiled came from Inductor's cache, and which kernels autotuning chose."""

    def counters(self, shape: str) -> dict[str, int]:
        """What compiling for `shape` took (after the shapes that ran before it), and what the runner itself counts."""
        return {**self.compiled.get(shape, {}), **self.runner.counters()}


class Workbench:
    """Holds one built variant at a time. Cases of one `place` should come in a row: the plugin orders them so. While
    one stands built, float32 is not rounded to TF32 (`perf.precision`). `ledger` tells what a run's time went into."""

    def __init__(self, catalogue: Catalogue, seed: int, cache: Path, root: Path, ledger: Ledger | None = None) -> None:
        self.catalogue = catalogue
        self.seed = seed
        self.ledger = ledger or Ledger()
        self._cache = cache
        self._root = root
        self._core: tuple[str, ...] = ()
        self._key: tuple[str, ...] = ()
        self._built: Built | None = None
        self._precision = ExitStack()
        self._failures = Failures()
        self._parity: dict[str, Parity] = {}
        self._outputs: dict[tuple[str, ...], Outputs] = {}
        self._costs: dict[tuple[str, str, str], Cost | None] = {}
        self._modules = Modules()
        self._weightless: dict[tuple[str, str], torch.nn.Module] = {}

    def describe(self, case: Case) -> tuple[Core, Preset, Variant, Shape]:
        core = self.catalogue.cores[case.core]
        preset = core.presets[case.preset]
        shape = next(shape for shape in preset.shapes if shape.name == case.shape)
        return core, preset, self.catalogue.variants[case.variant], shape

    def built(self, case: Case) -> Built:
        """The variant of `case`, built now if it is not the one at hand. What building raises is the caller's to see,
        each time that the case is asked for; it is not built again for that."""
        if (key := self.place(case)) != self._key or self._built is None:
            self._turn_to(case)
            self.close()
            self._precision.enter_context(tf32(allowed=False))
            with self._failures.of(*key), self.ledger.span("building"):
                variant = self.catalogue.variants[case.variant]
                self._key, self._built = key, Built(variant.build(self.blueprint(case)))
        return self._built

    def refuse(self, case: Case, why: Exception, whole: bool) -> None:
        """Raise it where the case is to be checked; of a `whole` variant, also where that is to be built."""
        self._failures.keep(why, case.key)
        if whole:
            self._failures.keep(why, *self.place(case))

    def place(self, case: Case) -> tuple[str, ...]:
        """Cases of one are served by one built variant."""
        shape = case.shape if self.catalogue.variants[case.variant].fixed_shape else ""
        return (case.core, case.preset, case.variant, case.device, shape)

    def _turn_to(self, case: Case) -> None:
        """Before a core's first case: what was built of the last one is given up, and what is left stays for good."""
        core = (case.core, case.preset, case.device)
        if core != self._core:
            self._core, self._modules = core, Modules()
            self.close()
            settle_heap()

    def module(self, core: str, preset: str, device: str, dtype: str) -> torch.nn.Module:
        """Fresh, in eval mode, its floating parameters and buffers in `dtype`."""
        return self._modules.fresh(core, preset, self.catalogue.cores[core].presets[preset], device, dtype)

    def blueprint(self, case: Case) -> Blueprint:
        core, preset, _, shape = self.describe(case)
        return Blueprint(
            core=core,
            preset=preset,
            shape=shape,
            device=case.device,
            cache=self._cache,
            module=partial(self.module, case.core, case.preset, case.device),
            example=partial(preset.inputs, shape),
        )

    def parity(self, case: Case) -> Parity:
        """Checked once a case: the outputs of the very runner that will be timed, on inputs from the session's seed. A
        case that raised raises the same again, and is not tried again."""
        if case.key not in self._parity:
            with self._failures.of(case.key), self.ledger.span("checking"):
                self._parity[case.key] = self._check(case)
        return self._parity[case.key]

    def _check(self, case: Case) -> Parity:
        core, _, variant, _ = self.describe(case)
        self._turn_to(case)
        reference, eager, unsteady = self._expected(case, variant.dtype)
        if unsteady:
            return Parity(False, math.nan, math.nan, math.nan, reason=unsteady)
        found = parity.judge(self.first_outputs(case), eager, reference, core, variant)
        if found.ok or not found.departed:
            return found
        return replace(found, reason=f"{found.reason}; {self._where(case, variant)}")

    def _where(self, case: Case, variant: Variant) -> str:
        """Which layer to look at. The variant at hand is given up for it: it will not be timed."""
        self.close()
        try:
            with tf32(allowed=False):
                return f"first departing layer: {localise(self.blueprint(case), variant, self.inputs(case))}"
        except Exception as error:
            return f"no layer could be named ({type(error).__name__} on the tapped core)"

    def prepared(self, case: Case) -> Any:
        """The inputs of `case` that parity is judged on, as its runner wants them; prepared once."""
        return self._prepared(case, self.seed)

    def timed(self, case: Case) -> Any:
        """The inputs of `case` that are timed, the same in every run: what a call takes may depend on their values."""
        return self._prepared(case, TIMED_SEED)

    def _prepared(self, case: Case, seed: int) -> Any:
        built = self.built(case)
        if (case.shape, seed) not in built.prepared:
            built.prepared[case.shape, seed] = built.runner.prepare(self._drawn(case, seed))
        return built.prepared[case.shape, seed]

    def cost(self, case: Case) -> Cost | None:
        """The least that a call must do: what the core states; else, of a pure core, counted once on the meta device.
        None where that cannot be: the core reads values there.
        """
        key = (case.core, case.preset, case.shape)
        if key not in self._costs:
            core, _, _, shape = self.describe(case)
            stated = core.work(shape).cost
            with self.ledger.span("counting"):
                self._costs[key] = stated if stated or core.impure else self._counted(case)
        return self._costs[key]

    def _counted(self, case: Case) -> Cost | None:
        try:
            with warnings.catch_warnings(action="ignore"):
                return count(self.weightless(case.core, case.preset), to_device(self.inputs(case), "float32", "meta"))
        except Exception:  # whatever a core does without values; it then has no limit, and the table says so
            return None

    def weightless(self, core: str, preset: str) -> torch.nn.Module:
        """In float32 on the meta device, built once; raises what building it without values raises."""
        if (core, preset) not in self._weightless:
            found = self.catalogue.cores[core].presets[preset]
            # a checkpoint that is copied onto meta tensors goes nowhere, and warns of it
            with self._failures.of("meta", core, preset), warnings.catch_warnings(action="ignore"):
                self._weightless[core, preset] = build_module(found, "meta", "float32")
        return self._weightless[core, preset]

    def inputs(self, case: Case) -> Inputs:
        """Those that parity is judged on, on the CPU."""
        return self._drawn(case, self.seed)

    def timed_inputs(self, case: Case) -> Inputs:
        """Those that are timed, on the CPU."""
        return self._drawn(case, TIMED_SEED)

    def _drawn(self, case: Case, seed: int) -> Inputs:
        _, preset, _, shape = self.describe(case)
        return preset.inputs(shape, seed)

    def close(self) -> None:
        if self._built is not None:
            self._built.runner.close()
            self._built, device = None, self._key[3]
            release(device)
        self._precision.close()

    def first_outputs(self, case: Case) -> Outputs:
        """On the CPU. The first calls belong to building: what compiles lazily compiles in them, and what that took is
        kept."""
        built, prepared = self.built(case), self.prepared(case)
        with ExitStack() as watched:
            watched.enter_context(self.ledger.span("building"))
            seen, kernels = watched.enter_context(watching(self._root)), watched.enter_context(counting_kernels())
            came, chosen = watched.enter_context(noting_state()), watched.enter_context(noting_choices())
            for _ in range(CALLS_TO_CAPTURE if case.device == "cuda" else 1):
                outputs = built.runner.outputs(built.runner.run(prepared))
        report = seen.report()
        graphs = {"cudagraphs": n} if (n := captured()) else {}
        built.compiled[case.shape] = {**kernels, **report.counters(), **graphs}
        built.places[case.shape] = report.places()
        built.came[case.shape] = {**({CACHE_NOTE: ", ".join(came)} if came else {}), **as_notes(chosen)}
        return tuple(item.cpu() for item in outputs)

    def _expected(self, case: Case, dtype: str) -> tuple[Outputs, Outputs, str]:
        """Reference and eager outputs of `case`, and why eager is no measure, if it is not; kept for the session."""
        (core, preset, *_), inputs = self.describe(case), self.inputs(case)
        where = (case.core, case.preset, case.shape, case.device)
        if (*where, preset.reference, "reference") not in self._outputs:
            reference, _ = self._eager(case, preset.reference, inputs)
            self._outputs[(*where, preset.reference, "reference")] = reference
        if (*where, dtype, "eager") not in self._outputs:
            first, second = self._eager(case, dtype, inputs)
            self._outputs[(*where, dtype, "eager")], self._outputs[(*where, dtype, "again")] = first, second
        eager, again = self._outputs[(*where, dtype, "eager")], self._outputs[(*where, dtype, "again")]
        reference = self._outputs[(*where, preset.reference, "reference")]
        return reference, eager, parity.agrees_with_itself(eager, again, reference, core.tolerance)

    def _eager(self, case: Case, dtype: str, inputs: Inputs) -> tuple[Outputs, Outputs]:
        twice = run_eagerly(self.module(case.core, case.preset, case.device, dtype), case.device, dtype, inputs)
        release(case.device)
        return twice
