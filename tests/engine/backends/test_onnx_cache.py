"""One export per content: what makes another content, who builds, and what is left when a build does not end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perf.backends import onnx_export, onnx_files
from perf.backends.build_cache import built_once
from perf.backends.onnx_export import Trace, legacy
from perf.backends.onnx_files import OnnxFile, export
from perf.backends.onnx_spec import Export
from perf.errors import CoregateError
from tests.engine.onnx_toys import blueprint

ROOT = Path(__file__).parents[3]
SPEC = Export(exporter="counted", opset=17)


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each export that really happens."""
    done: list[Path] = []

    def counted(given: Trace, path: Path) -> None:
        done.append(path)
        legacy(given, path)

    monkeypatch.setitem(onnx_export.EXPORTERS, "counted", counted)
    return done


def folders(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "onnx").iterdir() if not path.name.startswith("."))


def test_the_same_content_is_exported_once(tmp_path: Path, exports: list[Path]) -> None:
    files = [export(blueprint(tmp_path, asked=asked), SPEC) for asked in (0, 1, 0)]
    assert len(exports) == len({file.path for file in files}) == len(folders(tmp_path)) == 1
    assert files[0].path.parent.name.startswith("toy-tiny-")


def test_other_weights_options_shapes_and_axes_are_other_content(tmp_path: Path, exports: list[Path]) -> None:
    plans = [
        (blueprint(tmp_path), SPEC),
        (blueprint(tmp_path, seed=1), SPEC),
        (blueprint(tmp_path), Export("counted", 16)),
        (blueprint(tmp_path), Export("counted", 17, dynamic=False)),
        (blueprint(tmp_path, asked=1), Export("counted", 17, dynamic=False)),
        (blueprint(tmp_path, dynamic={}), SPEC),
        (blueprint(tmp_path), Export("counted", 17, dtype="float16")),
    ]
    assert len({export(plan, spec).path for plan, spec in plans}) == len(plans) == len(exports)


def test_another_version_of_the_modules_library_is_other_content(
    tmp_path: Path, exports: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    export(blueprint(tmp_path), SPEC)
    monkeypatch.setattr(onnx_files, "library_versions", lambda module: ["diffusers 99"])
    export(blueprint(tmp_path), SPEC)
    assert len(exports) == 2


def test_a_mixed_file_is_made_of_the_float16_export(tmp_path: Path, exports: list[Path]) -> None:
    export(blueprint(tmp_path), Export("counted", 17, "float16"))
    export(blueprint(tmp_path), Export("counted", 17, "float16", keep_float32=("Softmax",)))
    assert len(exports) == 1
    assert len(folders(tmp_path)) == 2


EXPORTING = """
import sys, time
from pathlib import Path
from perf.backends import onnx_export
from perf.backends.onnx_files import export
from perf.backends.onnx_spec import Export
from tests.engine.onnx_toys import blueprint

def slow(given, path):
    print("exporting", flush=True)
    time.sleep(1.0)
    onnx_export.legacy(given, path)

onnx_export.EXPORTERS["slow"] = slow
print(export(blueprint(Path(sys.argv[1])), Export("slow", 17)).path, flush=True)
"""


def test_two_processes_that_want_the_same_export_share_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", EXPORTING, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    lines = [line for out, _ in said for line in out.splitlines()]
    assert lines.count("exporting") == 1
    assert len(set(lines) - {"exporting"}) == 1
    assert OnnxFile.read(Path(next(iter(set(lines) - {"exporting"})))).nodes == 3


BUILDING = """
import sys, time
from pathlib import Path
from perf.backends.build_cache import built_once

def build(folder):
    (folder / "half").write_text("half")
    print("building", flush=True)
    time.sleep(60)

built_once(Path(sys.argv[1]), build)
"""


def test_a_killed_build_leaves_nothing_and_blocks_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    command = [sys.executable, "-c", BUILDING, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "building\n"
        assert not folder.exists()
        process.send_signal(signal.SIGKILL)
    assert not folder.exists()
    built_once(folder, lambda empty: (empty / "whole").write_text("whole"))
    assert [path.name for path in folder.iterdir()] == ["whole"]
    assert {path.name for path in tmp_path.iterdir()} == {"model", ".model.lock", ".model.sizes"}


def test_a_build_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        built_once(tmp_path / "model", build)
    assert [path.name for path in tmp_path.iterdir()] == [".model.lock"]


@pytest.mark.parametrize("harm", [lambda file: file.write_text("wh"), lambda file: file.unlink()])
def test_what_was_cut_short_is_built_again(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    def build(empty: Path) -> None:
        (empty / "inner").mkdir()
        (empty / "inner" / "file").write_text("whole")

    folder = built_once(tmp_path / "model", build)
    harm(folder / "inner" / "file")
    assert (built_once(folder, build) / "inner" / "file").read_text() == "whole"
    (tmp_path / ".model.sizes").unlink()
    assert built_once(folder, lambda _: pytest.fail("built again")) == folder


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, exports: list[Path]) -> None:
    (tmp_path / "onnx").write_text("a file where the folder should be")
    with pytest.raises(CoregateError, match=r"^cannot write the cache \S+/onnx: .*: make the folder writable.*$"):
        export(blueprint(tmp_path), SPEC)
    assert not exports


def test_a_cache_that_cannot_be_written_still_gives_what_it_has(tmp_path: Path) -> None:
    folder = built_once(tmp_path / "model", lambda empty: (empty / "whole").write_text("whole"))
    (tmp_path / ".model.lock").unlink()
    (tmp_path / ".model.lock").mkdir()
    assert built_once(folder, lambda _: pytest.fail("built again")) == folder
