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
from perf.names import check_names
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


NAMES_OF_NOTHING = ["a/b", "a#b", "", "*", "a b", "a@cpu", "a=b", "-a", ".", "..", "a[1]", "a?", "a\n"]
SHAPED = """
from dataclasses import replace
from perf.contract import Core, Preset, Shape, Work

def core(name="c", preset="p", shapes=("s",)):
    made = Preset(lambda: None, lambda shape, seed: {{}}, tuple(Shape(shape, {{}}) for shape in shapes))
    return Core(name, "s", "here", {{preset: made}}, ("y",), lambda shape: Work("", 1))

CORES = [core({given})]
"""


def named(tmp_path: Path, given: str) -> None:
    folder = f"named_{abs(hash(given))}"  # Python keeps modules by name
    write(tmp_path / folder, "a.py", SHAPED.format(given=given))
    discover([tmp_path / folder], [], tmp_path)


@pytest.mark.parametrize("name", NAMES_OF_NOTHING)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("name={!r}", "core {!r}: a name is letters"),
        ("preset={!r}", "core c: preset {!r}: a name is letters"),
        ("shapes=('s', {!r})", "core c, preset p: shape {!r}: a name is letters"),
    ],
)
def test_what_cannot_stand_in_a_key_is_no_name(tmp_path: Path, given: str, said: str, name: str) -> None:
    with pytest.raises(CoregateError) as raised:
        named(tmp_path, given.format(name))
    assert str(raised.value).startswith(said.format(name))


@pytest.mark.parametrize("name", NAMES_OF_NOTHING)
def test_nor_does_it_name_a_variant(name: str) -> None:
    with pytest.raises(CoregateError) as raised:
        check_names([core("one")], [variant("eager"), variant(name)])
    assert str(raised.value).startswith(f"variant {name!r}: a name is letters")


@pytest.mark.parametrize("name", ["a", "1", "512px-b2", "a.b", "a_b", "int8+fp16", "_a", "größe"])
def test_what_can_stand_in_a_key_is_a_name(tmp_path: Path, name: str) -> None:
    named(tmp_path, f"{name!r}, {name!r}, ({name!r},)")
    check_names([], [variant(name)])


def test_two_shapes_of_one_name_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match=r"core c, preset p: shape 's' is there twice: .*rename one"):
        named(tmp_path, "shapes=('s', 't', 's')")


def test_a_shape_is_not_called_what_weights_are_kept_under(tmp_path: Path) -> None:
    with pytest.raises(CoregateError, match="core c: shape 'weights' is what reading weights is kept under"):
        named(tmp_path, "shapes=('weights',)")


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
