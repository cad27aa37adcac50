"""Discovery by module constant, the product, and what narrows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perf.catalogue import Catalogue, Selection, discover, expand
from perf.catalogue import keys as every_key
from perf.contract import Case, Core, Preset, Shape, Variant, Work
from perf.errors import CoregateError
from perf.subjects import graph_subjects


def core(name: str, **fields: Any) -> Core:
    preset = Preset(lambda: None, lambda shape, seed: {}, (Shape("s1", {}), Shape("s2", {})))  # type: ignore[arg-type, return-value]
    return Core(
        name,
        "s",
        "here",
        {"tiny": preset, "tiny-b": preset, "full": preset},
        ("y",),
        lambda shape: Work("", 1),
        **fields,
    )


def variant(name: str, **fields: Any) -> Variant:
    return Variant(name, lambda blueprint: None, **fields)  # type: ignore[arg-type, return-value]


def catalogue(*variants: Variant, cores: tuple[Core, ...] = ()) -> Catalogue:
    return Catalogue({c.name: c for c in cores or (core("one"), core("two"))}, {v.name: v for v in variants})


PLAIN = catalogue(variant("eager"), variant("rare", standard_on=()))


def keys(catalogue: Catalogue, selection: Selection) -> list[str]:
    return [case.key for case in expand(catalogue, selection)[0]]


def test_standard_matrix_is_the_first_shape_of_the_devices_preset() -> None:
    assert keys(PLAIN, Selection()) == ["one/tiny/eager/s1/cpu", "two/tiny/eager/s1/cpu"]


def test_full_matrix_is_the_whole_product() -> None:
    found = keys(PLAIN, Selection(matrix="full"))
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2  # cores × tiny presets × variants × shapes
    assert not any("/full/" in key for key in found)


def test_a_core_without_the_devices_preset_runs_its_first() -> None:
    assert keys(PLAIN, Selection(cores=("one",), devices=("cuda",))) == ["one/full/eager/s1/cuda"]
    small = catalogue(variant("eager"), cores=(replace(core("c"), presets={"tiny": core("c").presets["tiny"]}),))
    assert keys(small, Selection(devices=("cuda",))) == ["c/tiny/eager/s1/cuda"]


def test_patterns_narrow_each_axis() -> None:
    only = Selection(cores=("t*",), variants=("rare",), presets=("tiny-b",), shapes=("s2",))
    assert keys(PLAIN, only) == ["two/tiny-b/rare/s2/cpu"]


def test_patterns_repeat() -> None:
    assert len(keys(PLAIN, Selection(cores=("one", "two"), shapes=("s1", "s2")))) == 4


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (Selection(cores=("onne",)), "--core onne: no such name; near: one"),
        (Selection(variants=("eagre",)), "--variant eagre: no such name; near: eager, rare"),
        (Selection(devices=("gpu",)), "--device gpu: no such name; near: cpu"),
        (Selection(shapes=("zzz",)), "--shape zzz: no such name; near: s1, s2"),
    ],
)
def test_an_unknown_name_lists_the_near_ones(selection: Selection, said: str) -> None:
    with pytest.raises(CoregateError) as raised:
        expand(PLAIN, selection)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("variants", "cores", "reason"),
    [
        ((variant("v", missing=lambda device: "no widget: pip install widget"),), (), "no widget: pip install widget"),
        ((variant("v", devices=("cuda",)),), (), "runs on cuda only"),
        ((variant("v"),), (core("c", missing=lambda: "no wheel: pip install wheel"),), "no wheel: pip install wheel"),
        ((variant("v"),), (core("c", unsupported={"v*": "its spline needs float64"}),), "its spline needs float64"),
        ((variant("v"),), (core("c", unsupported={"v@cuda": "no", "v@cp?": "no C++"}),), "no C++"),
        ((variant("v", exports=True),), (core("c", impure="reads files"),), "not exported: reads files"),
    ],
)
def test_what_cannot_run_is_a_skip_with_its_reason(
    variants: tuple[Variant, ...], cores: tuple[Core, ...], reason: str
) -> None:
    cases, skips = expand(catalogue(*variants, cores=cores), Selection())
    assert not cases
    assert {skip.reason for skip in skips} == {reason}


@pytest.mark.parametrize(
    ("made", "lacking"),
    [(core("c", missing=lambda: "no wheel"), True), (core("c", unsupported={"v*": "its spline needs float64"}), False)],
)
def test_the_machine_lacks_what_could_be_brought_and_nothing_else(made: Core, lacking: bool) -> None:
    _, skips = expand(catalogue(variant("v"), cores=(made,)), Selection())
    assert [skip.lacking for skip in skips] == [lacking]


def test_graphs_are_counted_over_core_preset_device_and_dynamic() -> None:
    found = graph_subjects(PLAIN, Selection(cores=("one",), variants=("eager",)))
    assert [subject.key for subject in found] == ["one/tiny/cpu/dynamic=None"]
    wider = graph_subjects(PLAIN, Selection(cores=("one",), matrix="covering"))
    assert [subject.key for subject in wider] == [f"one/tiny/cpu/dynamic={value}" for value in (None, True, False)]


@pytest.mark.parametrize("matrix", ["standard", "full"])
def test_the_keys_of_the_product_are_known_without_asking_what_can_run(matrix: str) -> None:
    def asked(*arguments: str) -> str:
        raise AssertionError(arguments)

    plain = catalogue(variant("eager"), variant("rare", standard_on=()), cores=(core("c"),))
    never = catalogue(
        variant("eager", missing=asked),
        variant("rare", standard_on=(), missing=asked),
        cores=(core("c", missing=asked),),
    )
    selection = Selection(matrix=matrix)
    assert every_key(never, selection) == set(keys(plain, selection))


def test_key_round_trip() -> None:
    case = Case("one", "tiny", "eager", "s1", "cpu")
    assert Case.parse(case.key) == case
    with pytest.raises(ValueError, match="not a case key"):
        Case.parse("one/tiny")


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("X = 1", "has no CORES = [...]"),
        ("import nowhere_to_be_found", "does not import: ModuleNotFoundError"),
        ("def f(:", "does not import: SyntaxError"),
    ],
)
def test_a_broken_core_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    folder = tmp_path / f"broken_{len(text)}"  # Python keeps modules by name: another folder, another name
    write(folder, "a.py", text)
    with pytest.raises(CoregateError, match=r"a\.py") as raised:
        discover([folder], [], tmp_path)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    text = "from types import SimpleNamespace\nCORES = [SimpleNamespace(name='same')]\n"
    write(tmp_path / "double_cores", "a.py", text)
    write(tmp_path / "double_cores", "b.py", text)
    with pytest.raises(CoregateError, match=r"'same' stands in .*a\.py and in .*b\.py"):
        discover([tmp_path / "double_cores"], [], tmp_path)


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match="no folder"):
        discover([tmp_path / "absent"], [], tmp_path)


def test_underscored_files_are_no_cores(tmp_path: Path) -> None:
    write(tmp_path / "quiet_cores", "_helper.py", "X = 1")
    assert not discover([tmp_path / "quiet_cores"], [], tmp_path).cores


def test_families_are_named_by_their_file(tmp_path: Path) -> None:
    write(tmp_path / "no_cores", "_none.py", "")
    found = discover([tmp_path / "no_cores"], [], tmp_path).variants
    assert found["eager-fp32"].family == "eager"
    assert found["onnx-cpu-fp32"].family == "onnx"
