"""pytest-benchmark's file storage, in our folders: accepted runs under the baselines, all others under
`.benchmarks/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from pytest_benchmark.storage.file import FileStorage

from perf.store.baselines import next_path
from perf.store.files import check_writable, write_atomically


class Storage(FileStorage):
    """Reads from `baselines/<machine class>`; writes there on `--benchmark-save`, else to
    `.benchmarks/<machine class>`."""

    def __init__(self, baselines: Path, target: Path, machine_class: str, logger: Any) -> None:
        """Not the base's, which makes the folder it reads from."""
        self.path = baselines.resolve()
        self.default_machine_id = machine_class
        self.logger = logger
        self._cache: dict[Path, Any] = {}
        self._target = target / machine_class

    def save(self, output_json: Any, save: str) -> None:
        path = next_path(self._target, save)
        write_atomically(path, json.dumps(output_json, indent=1, default=str))
        self.logger.info(f"Saved benchmark data in: {path}")

    def newest(self, path: Path) -> dict[Path, dict[str, Any]]:
        """What pytest-benchmark compares with, for `--benchmark-compare-fail`: its own loading warns of every
        difference
        in machine_info, at length, where ours is a matter of the machine class."""
        return {
            file: {b["fullname"]: b for b in data["benchmarks"]} for file, data in cast("Any", self).load(str(path))
        }

    def check_writable(self) -> None:
        check_writable(self._target)
