"""The words of coregate, as frozen data. Everything imports this module; it imports nothing of ours.

A *core* is one `nn.Module` worth compiling, at one or more *presets* (sizes) and *shapes* (points of its input space).
A *variant* is one way to run it. A *case* is core × preset × variant × shape × device; its `key` is public API, since
baselines are stored under it. What a run learns of a case, and what is said of that, is in `perf.outcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

Inputs = Mapping[str, Any]
"""A core's arguments by the name its `forward` gives them: tensors, on the CPU and float32 where they float, until a
runner prepares them. An impure core (a whole pipeline) may take plain Python values as well."""

Outputs = tuple["torch.Tensor", ...]
"""What a core returns, always as a tuple."""


@dataclass(frozen=True)
class Shape:
    """A named point of a core's input space, such as `Shape("512px-b2", {"px": 512, "batch": 2})`."""

    name: str
    dims: Mapping[str, int] = field(hash=False)

    def __getitem__(self, dim: str) -> int:
        return self.dims[dim]


@dataclass(frozen=True)
class Axis:
    """A dimension that changes between requests: its symbol and its bounds, for exporters and `mark_dynamic`. Only
    multiples of `multiple` are legal (a stride-8 network's height)."""

    symbol: str
    min: int = 2
    max: int = 4096
    multiple: int = 1


@dataclass(frozen=True)
class Preset:
    """A size of a core. `build` returns the module in float32 and eval mode, its weights drawn from a fixed seed; it is
    called under `torch.device(device)` and may ignore that (the engine moves the module). `inputs(shape, seed)` gives
    float32/integer CPU tensors. The first of `shapes` is the standard one; graphs are counted over all of them."""

    build: Callable[[], torch.nn.Module]
    inputs: Callable[[Shape, int], Inputs]
    shapes: tuple[Shape, ...]
    reference: str = "float64"
    """dtype of the parity reference: `float64`, or `float32` (TF32 off) where float64 does not fit."""


@dataclass(frozen=True)
class Tolerance:
    """Parity: RMSE(variant) ≤ k · RMSE(eager at the variant's dtype) + floor, both against the reference; `k16` is k
    for 16-bit dtypes. `floor` is in units of the output's RMS. Quantised variants meet `sqnr_db` (and task) instead."""

    k: float = 2.0
    k16: float = 3.0
    floor: float = 1e-6
    sqnr_db: float = 15.0


@dataclass(frozen=True)
class Task:
    """What the output is for, as one number: `measure(reference, outputs)`, at least `at_least` (1.0 is perfect)."""

    name: str
    measure: Callable[[Outputs, Outputs], float]
    at_least: float


@dataclass(frozen=True)
class Cost:
    """The least that a call must do. `flops` count a multiply-add as two; `weights` are parameters read, `values`
    floating-point numbers in and out, `integer_bytes` integers' bytes."""

    flops: float = 0.0
    weights: float = 0.0
    values: float = 0.0
    integer_bytes: float = 0.0


@dataclass(frozen=True)
class Work:
    """One call's work: `amount` of the `unit` people think in (images, tokens, seconds of audio). The engine counts
    what a pure core's call costs; an impure one may state it."""

    unit: str
    amount: float
    cost: Cost | None = None


@dataclass(frozen=True)
class ServingPlan:
    """Names of the shapes run before serving, and of those served; those that a preset lacks do not concern it."""

    warmup: tuple[str, ...]
    served: tuple[str, ...]


@dataclass(frozen=True)
class Core:
    """A model core, from a real library. See CONTRIBUTING.md, «A new core», for one in 20 lines.
    `dynamic` names the axes that vary between shapes: {"image": {0: Axis("batch"), 2: Axis("height", 64, 1024)}}.
    `unsupported` maps a shell pattern over variant names to the honest reason it cannot run this core (a skip);
    `"quant-*@cpu"` holds on that device alone.
    `impure`, where set, says why the core is not one graph (text handling, random numbers): breaks are then reported
    and not failed, and nothing is exported. `budgets` overrides a metric's own: {"latency_s": 0.10}; math.inf is none.
    `missing()` is None where the core can be built, else what is missing and the command that brings it.
    """

    name: str
    system: str
    source: str
    presets: Mapping[str, Preset]
    outputs: tuple[str, ...]
    work: Callable[[Shape], Work]
    dynamic: Mapping[str, Mapping[int, Axis]] = field(default_factory=dict)
    tolerance: Tolerance = Tolerance()
    task: Task | None = None
    plan: ServingPlan | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict)
    impure: str = ""
    budgets: Mapping[str, float] = field(default_factory=dict)
    missing: Callable[[], str | None] = lambda: None


class Runner(Protocol):
    """One built variant. Timed: `run` alone. `prepare` casts, moves and binds; `outputs` brings results into torch."""

    def prepare(self, inputs: Inputs) -> Any: ...
    def run(self, prepared: Any) -> Any: ...
    def outputs(self, raw: Any) -> Outputs: ...
    def counters(self) -> Mapping[str, int]: ...
    def notes(self) -> Mapping[str, str]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Blueprint:
    """What a variant builds from. `module(dtype)` is a fresh eval-mode module on `device`; `example(seed)` are CPU
    inputs at `shape`; `cache` is a folder that outlives the run, for files keyed by content."""

    core: Core
    preset: Preset
    shape: Shape
    device: str
    cache: Path
    module: Callable[[str], torch.nn.Module]
    example: Callable[[int], Inputs]


@dataclass(frozen=True)
class Variant:
    """One way to run any core. `missing(device)` is None where it can run, else what is missing and the command that
    brings it. `standard_on` names the devices on whose standard matrix it stands. `lossy` variants (quantised) are
    judged by SQNR and task; `exports` ones trace the core and cannot take an impure one; `fixed_shape` ones are built
    once a shape. `options` are the family's settings as data: they are part of the workload and printed with it.
    `products` and `weights` are dtypes that it multiplies in (or `tf32`) and keeps weights in, where not in `dtype`.
    """

    name: str
    build: Callable[[Blueprint], Runner]
    dtype: str = "float32"
    devices: tuple[str, ...] = ("cpu", "cuda")
    missing: Callable[[str], str | None] = lambda device: None
    standard_on: tuple[str, ...] = ("cpu", "cuda")
    lossy: bool = False
    exports: bool = False
    fixed_shape: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    family: str = ""
    products: str = ""
    weights: str = ""


@dataclass(frozen=True)
class Case:
    """Core × preset × variant × shape × device, all by name."""

    core: str
    preset: str
    variant: str
    shape: str
    device: str

    @property
    def key(self) -> str:
        """`deeplabv3/tiny/eager-fp32/64px-b2/cpu`: what baselines are stored under."""
        return "/".join((self.core, self.preset, self.variant, self.shape, self.device))

    @classmethod
    def parse(cls, key: str) -> Case:
        """The case of a key, or of a key with what else was measured of it behind a `#`."""
        parts = key.partition("#")[0].split("/")
        if len(parts) != 5:
            raise ValueError(f"{key!r} is not a case key: expected core/preset/variant/shape/device")
        return cls(*parts)


@dataclass(frozen=True)
class GraphSubject:
    """Core × preset × device × `dynamic`, as torch.compile takes it: what graphs and breaks are counted for."""

    core: str
    preset: str
    device: str
    dynamic: bool | None

    @property
    def key(self) -> str:
        """`deeplabv3/tiny/cpu/dynamic=None`."""
        return f"{self.core}/{self.preset}/{self.device}/dynamic={self.dynamic}"


WEIGHTS = "weights"
"""Stands in a load subject's key where a case has its shape."""


@dataclass(frozen=True)
class LoadSubject:
    """Core × preset × device × file suffix: what reading weights is timed for."""

    core: str
    preset: str
    device: str
    suffix: str

    @property
    def key(self) -> str:
        return f"{self.core}/{self.preset}/eager-fp32/{WEIGHTS}/{self.device}#load{self.suffix}"


@dataclass(frozen=True)
class Skip:
    """A case that cannot run here, and why: what is missing and, where a command brings it, that command. `lacking` is
    whether the machine lacks it; else the core and the variant do not go together."""

    case: Case
    reason: str
    lacking: bool = False
