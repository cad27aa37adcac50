"""The parent's end of a side's process: start it, ask it, kill it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from perf.ab import PROTOCOL
from perf.ab.interleave import Durations, SideDiedError
from perf.ab.origin import Origin
from perf.ab.sides import MODULE
from perf.errors import CoregateError

CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "CUDA_CACHE_PATH": "cuda",
    "TMPDIR": "temporary",
}
"""Variables that name a folder, and ours below the side's own. A killed process leaves its temporary files there."""

NOT_OURS = ("PYTEST_ADDOPTS", "PYTHONSAFEPATH")
GRACE_S = 10.0


class Worker:
    """One process of one side. `cache` is this side's own folder for all that is compiled or exported: it outlives the
    process, so that a restart need not compile again, and no other side has it. `module` is what its python runs."""

    def __init__(
        self, origin: Origin, arguments: Sequence[str], cache: Path, limit_s: float, module: str = MODULE
    ) -> None:
        self.origin = origin
        self._limit_s = limit_s
        for folder in CACHES.values():
            (cache / folder).mkdir(parents=True, exist_ok=True)
        replaced = ["--replaced", str(origin.replaced)] if origin.replaced else []
        command = [str(origin.python), "-m", module, "--cache", str(cache / "coregate"), *replaced, *arguments]
        self._log = cache / "stderr.log"
        self._process = self._started(command, environment(os.environ, cache))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._unread = b""

    def hello(self) -> dict[str, Any]:
        """What the side says first; it has then collected its cases.

        Raises:
            CoregateError: it does not start, or says what is wrong.
        """
        try:
            said = self._read()
            while "coregate_ab" not in said and "error" not in said:
                said = self._read()
        except SideDiedError as died:
            raise CoregateError(
                f"{self._name} starts no worker: {died}: it needs torch and a coregate with perf.ab"
            ) from None
        if "error" in said:
            raise CoregateError(f"{self._name}: {said['error']}")
        if said["coregate_ab"] != PROTOCOL:
            raise CoregateError(
                f"{self._name} speaks protocol {said['coregate_ab']}, not {PROTOCOL}: take a nearer revision"
            )
        return said

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]:
        """One answer to one request.

        Raises:
            SideDiedError: the process ended over it.
            CoregateError: the side says what is wrong.
        """
        try:
            self._requests.write(json.dumps({"ask": ask, **fields}).encode() + b"\n")
            self._requests.flush()
        except BrokenPipeError:
            raise self._died() from None
        answer = self._read()
        if "error" in answer:
            raise CoregateError(f"{self._name}: {answer['error']}")
        return answer

    def run(self, key: str, calls: int) -> Durations:
        durations: Durations = self.ask("run", key=key, calls=calls)["durations"]
        return durations

    def kill(self) -> None:
        """At once, with all that it started (compilers run beside it). It holds nothing that is still wanted, and to
        leave by itself takes a process with torch some seconds."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._requests, self._answers):
            with suppress(BrokenPipeError):
                pipe.close()

    def _started(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """In a session of its own: Ctrl-C is for the parent to handle."""
        pipe = subprocess.PIPE
        try:
            with self._log.open("w") as log:
                return subprocess.Popen(
                    command, cwd=self.origin.root, env=env, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise CoregateError(
                f"{self._name} does not run: {error.strerror}: it must be a python executable"
            ) from None

    @property
    def _name(self) -> str:
        return f"--{self.origin.side} {self.origin.label}"

    def _read(self) -> dict[str, Any]:
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], self._limit_s)
            if not ready:
                self.kill()
                why = f"no answer within {self._limit_s / 60:.0f} min: raise --budget-minutes"
                raise SideDiedError(self.origin.side, why, in_time=False)
            chunk = os.read(self._answers.fileno(), 1 << 16)
            if not chunk:
                raise self._died()
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return _json_object(line)

    def _died(self) -> SideDiedError:
        """Why: the signal, or the last line that it wrote."""
        try:
            code = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return SideDiedError(self.origin.side, "it closed its answers")
        if code < 0:
            return SideDiedError(self.origin.side, f"killed by {signal.Signals(-code).name}")
        written = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return SideDiedError(self.origin.side, written[-1][:300] if written else f"exit status {code}")


def environment(inherited: Mapping[str, str], cache: Path) -> dict[str, str]:
    """What a worker inherits, with every compile cache in `cache`. Threads that wait for work sleep: spinning, they
    would take the other side's cores."""
    kept = {name: value for name, value in inherited.items() if name not in NOT_OURS}
    return {"OMP_WAIT_POLICY": "passive", **kept, **{name: str(cache / folder) for name, folder in CACHES.items()}}


def _json_object(line: bytes) -> dict[str, Any]:
    """Empty for a line of something else: an interpreter's start-up files may print before the worker is on."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
