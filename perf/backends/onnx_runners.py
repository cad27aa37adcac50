"""How ONNX Runtime's sessions run: over CPU memory, bound to memory (IO binding), replayed as a CUDA graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnxruntime
import torch

from perf.backends.deployed import Loading
from perf.backends.onnx_files import OnnxFile
from perf.backends.onnx_profile import Node, node_counters, read_profile, short
from perf.backends.onnx_session import (
    Levels,
    count_levels,
    level_counters,
    loading,
    open_session,
    save_optimised,
    session_options,
)
from perf.backends.onnx_spec import CPU, SessionSpec
from perf.contract import Inputs, Outputs
from perf.runners import to_device

TORCH_TYPES = {
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(double)": torch.float64,
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(int8)": torch.int8,
    "tensor(uint8)": torch.uint8,
    "tensor(bool)": torch.bool,
}


def make_runner(file: OnnxFile, spec: SessionSpec, dtype: str, example: Inputs) -> OnnxRunner:
    """The runner of `spec` over `file`, whose floating inputs are of `dtype`. Raises as `OnnxRunner` does."""
    return (BoundRunner if spec.bound else OnnxRunner)(file, spec, dtype, example)


class OnnxRunner:
    """A session over CPU memory: numpy in, numpy out; conversion to and from torch is not timed.

    The first call, on `example`, is profiled: `nodes` are the nodes that ran, where they ran.

    Raises:
        RuntimeError: a provider asked for was not obtained, or got no node to run.
        UnsupportedError: ONNX Runtime cannot run this model.
    """

    def __init__(self, file: OnnxFile, spec: SessionSpec, dtype: str, example: Inputs) -> None:
        self.file, self.spec = file, spec
        self._dtype = dtype
        with TemporaryDirectory(prefix="ort-profile-") as folder:
            options = session_options(spec)
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(folder) / "profile")
            self._session = open_session(file.path, spec, options)
            self._names = [item.name for item in self._session.get_inputs()]
            self._first_call(example)
            self.nodes = read_profile(Path(self._session.end_profiling()))
        _refuse_idle(_preferred(spec, self._session.get_providers()), self.nodes)
        if spec.profiling:  # the first profile has ended, and a session begins but one
            self._profiles = TemporaryDirectory(prefix="ort-profile-")
            options = session_options(spec)
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(self._profiles.name) / "profile")
            self._session = open_session(file.path, spec, options)

    def _first_call(self, example: Inputs) -> None:
        self.run(self.prepare(example))

    def prepare(self, inputs: Inputs) -> Any:
        cast = to_device(inputs, self._dtype, "cpu")
        return {name: cast[name].numpy() for name in self._names}

    def run(self, prepared: Any) -> Any:
        return self._session.run(None, prepared)

    def outputs(self, raw: Any) -> Outputs:
        return tuple(torch.from_numpy(item) for item in raw)

    def counters(self) -> Mapping[str, int]:
        return {
            "opset": self.file.opset,
            "onnx_nodes": self.file.nodes,
            "bytes_on_disk": self.file.bytes_on_disk,
            **node_counters(self.nodes),
            **level_counters(self.levels),
        }

    @cached_property
    def levels(self) -> Levels:
        """Counted when first asked for: it takes a session a level."""
        return count_levels(self.file, self.spec)

    def loadings(self, folder: Path) -> Mapping[str, Loading]:
        """From the file, and from what ONNX Runtime made of it, with nothing left to optimise (CPU alone: elsewhere the
        saved graph has a provider's compiled parts in it)."""
        found = {"session_load_s": loading(self.file.path, self.spec)}
        if self.spec.providers == (CPU,):
            optimised = save_optimised(self.file, self.spec, folder / "optimised.onnx")
            found["optimised_load_s"] = loading(optimised, replace(self.spec, level="disable"))
        return found

    def notes(self) -> Mapping[str, str]:
        return {
            "providers": ",".join(self._session.get_providers()),
            "onnxruntime": onnxruntime.__version__,
            "threads": str(self._session.get_session_options().intra_op_num_threads),
        }

    def close(self) -> None:
        if self.spec.profiling:
            self._session.end_profiling()
            self._profiles.cleanup()
        del self._session


def _preferred(spec: SessionSpec, obtained: Sequence[str]) -> str:
    """Of the providers asked for the first that was obtained; a lenient session may lack some."""
    return next((name for name in spec.providers if name in obtained), spec.providers[0])


def _refuse_idle(first: str, nodes: tuple[Node, ...]) -> None:
    if all(node.provider != short(first) for node in nodes):
        ran = ", ".join(sorted({node.provider for node in nodes}))
        raise RuntimeError(f"asked for {first}, but none of the {len(nodes)} nodes ran there: all on {ran}")


@dataclass(frozen=True)
class Bound:
    """Memory tied to a session's inputs and outputs; `inputs` is kept because the session only has its addresses."""

    binding: Any
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]
    options: onnxruntime.RunOptions


class BoundRunner(OnnxRunner):
    """Runs on tensors where they lie, on the session's device, into outputs allocated once: nothing is copied.

    With `CUDA_GRAPH` among CUDA's options each prepared set of inputs is captured as a graph of its own at its
    first run, and replayed from then on.
    """

    def __init__(self, file: OnnxFile, spec: SessionSpec, dtype: str, example: Inputs) -> None:
        self._graphs: Iterator[int] = count(1)
        super().__init__(file, spec, dtype, example)

    def _first_call(self, example: Inputs) -> None:
        self.prepare(example)

    def prepare(self, inputs: Inputs) -> Bound:
        """Runs once, uncaptured, to learn the outputs' shapes."""
        device = self.spec.device
        moved = to_device({name: inputs[name] for name in self._names}, self._dtype, device)
        binding = self._session.io_binding()
        for name, tensor in moved.items():
            bind_input(binding, name, tensor)
        names = [item.name for item in self._session.get_outputs()]
        for name in names:
            binding.bind_output(name, device)
        if device == "cuda":
            torch.cuda.synchronize()  # ONNX Runtime reads on a stream of its own
        self._session.run_with_iobinding(binding, _graph(-1))
        outputs = tuple(_like(value, device) for value in binding.get_outputs())
        binding.clear_binding_outputs()
        for name, tensor in zip(names, outputs, strict=True):
            binding.bind_output(name, *_memory(tensor))
        return Bound(binding, tuple(moved.values()), outputs, _graph(next(self._graphs)))

    def run(self, prepared: Any) -> Any:
        self._session.run_with_iobinding(prepared.binding, prepared.options)
        return prepared.outputs

    def outputs(self, raw: Any) -> Outputs:
        """Clones: the next call writes into the same memory."""
        return tuple(item.clone() for item in raw)


def bind_input(binding: Any, name: str, tensor: torch.Tensor) -> None:
    """Tie an input to a tensor's memory, which must live as long as the binding.

    Raises:
        ValueError: the tensor is not contiguous; ONNX Runtime would read its memory in the wrong order.
    """
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous (strides {tensor.stride()}): bind a copy, tensor.contiguous()")
    binding.bind_input(name, *_memory(tensor))


def _memory(tensor: torch.Tensor) -> tuple[str, int, Any, tuple[int, ...], int]:
    element = torch.empty(0, dtype=tensor.dtype).numpy().dtype
    return tensor.device.type, tensor.device.index or 0, element, tuple(tensor.shape), tensor.data_ptr()


def _like(value: Any, device: str) -> torch.Tensor:
    return torch.empty(tuple(value.shape()), dtype=TORCH_TYPES[value.data_type()], device=device)


def _graph(number: int) -> onnxruntime.RunOptions:
    """Which captured graph a run replays; -1 for none. Providers that capture nothing do not read it."""
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options
