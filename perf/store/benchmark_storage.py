"""pytest-benchmark's file storage, in our folders: accepted runs under the baselines, all others under
`.benchmarks/`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pytest_benchmark.storage.file import FileStorage

from perf.errors import CoregateError
from perf.store.baselines import KEEP, append, unfit
from perf.store.files import check_writable


class Storage(FileStorage):
    """Reads from `baselines/<machine class>`; writes there on `--benchmark-save`, else to
    `.benchmarks/<machine class>`."""

    def __init__(self, baselines: Path, target: Path, machine_class: str, logger: Any, accepts: bool) -> None:
        """Not the base's, which makes the folder it reads from. `accepts` is whether what is saved is a baseline."""
        self.path = baselines.resolve()
        self.default_machine_id = machine_class
        self.logger = logger
        self._cache: dict[Path, Any] = {}
        self._target = target / machine_class
        self._accepts = accepts
        self.refused = ""

    def save(self, output_json: Any, save: str) -> None:
        """A run that is to be a baseline and is not fit to be one is `refused`, and so is what cannot be written or
        meets a damaged file: pytest-benchmark calls this where an error would be its own internal error."""
        why = unfit(output_json["machine_info"].get("coregate", {})) if self._accepts else ""
        if why:
            self.refused = f"not saved as a baseline: {why}"
            return
        try:
            path = append(output_json, self._target, save, KEEP if self._accepts else None)
        except CoregateError as error:
            self.refused = str(error)
            return
        self.logger.info(f"Saved benchmark data in: {path}")

    def newest(self, paths: Sequence[Path]) -> dict[Path, dict[str, Any]]:
        """What pytest-benchmark compares with, for `--benchmark-compare-fail`: of each case the newest of these runs,
        oldest first. Its own loading takes one file, and warns of every difference in machine_info, at length, where
        ours is a matter of the machine class."""
        loaded = (data for path in paths for _, data in cast("Any", self).load(str(path)))
        return {paths[-1]: {entry["fullname"]: entry for data in loaded for entry in data["benchmarks"]}}

    def check_writable(self) -> None:
        check_writable(self._target)
