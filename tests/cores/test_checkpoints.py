"""Checkpoint files that are whole, cut off, something else, or reach for what is not theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from fixtures.checkpoints import WeightsError, pickled_names, read

CPU = torch.device("cpu")


def tensors() -> dict[str, Tensor]:
    return {"a": torch.arange(90.0).reshape(9, 10), "b": torch.tensor(7)}


def refusal(path: Path) -> str:
    """The one line of the error."""
    with pytest.raises(WeightsError) as caught:
        read(path, CPU)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_shards(folder: Path) -> Path:
    """Two shards and their index, as Hugging Face writes them."""
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    for key, name in places.items():
        save_file({key: tensors()[key]}, folder / name)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 368}, "weight_map": places}))
    return index


def test_shards_are_put_together_by_their_index_or_their_folder(tmp_path: Path) -> None:
    index = write_shards(tmp_path)
    for path in (index, tmp_path):
        state = read(path, CPU)
        assert list(state) == ["a", "b"]
        assert all(torch.equal(state[key], tensors()[key]) for key in state)


def test_a_lost_shard_and_a_lost_tensor_are_named(tmp_path: Path) -> None:
    index = write_shards(tmp_path)
    contents = json.loads(index.read_text())
    contents["weight_map"]["c"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(contents))
    assert "names tensors that its shards lack: c" in refusal(index)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    assert refusal(index).startswith(f"no weights at {tmp_path / 'model-00002-of-00002.safetensors'}")


def test_an_index_cannot_reach_out_of_its_folder(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "secret.safetensors")
    (tmp_path / "model").mkdir()
    index = tmp_path / "model" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(tensors(), "../secret.safetensors")}))
    assert "names '../secret.safetensors': shards are files in the index's own folder" in refusal(index)


@pytest.mark.parametrize("content", ["[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', "{}"])
def test_a_damaged_index_is_said_to_be_one(tmp_path: Path, content: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    assert "is no index of shards" in refusal(index)


def damaged(folder: Path, name: str) -> Path:
    """A file of that name whose contents are cut off, or are something else."""
    path = folder / name
    if name.startswith("cut"):
        save_file(tensors(), path) if path.suffix == ".safetensors" else torch.save(tensors(), path)
        path.write_bytes(path.read_bytes()[:300])
    else:
        path.write_bytes(b"" if name.startswith("empty") else b"hello, this is no checkpoint" * 9)
    return path


@pytest.mark.parametrize("name", ["cut.safetensors", "cut.pt", "empty.safetensors", "empty.pt", "text.pt", "text.bin"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    path = damaged(tmp_path, name)
    assert refusal(path).startswith(f"{path} is no ")


@pytest.mark.parametrize("content", [[torch.ones(2)], torch.ones(2), {}, {"a": 1}, {1: torch.ones(2)}, 5])
def test_a_pickle_of_something_else_is_named(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "odd.pt")
    assert "should hold one dictionary of tensors by name" in refusal(tmp_path / "odd.pt")


def test_a_missing_path_and_an_unknown_kind_say_what_is_allowed(tmp_path: Path) -> None:
    assert f"no weights at {tmp_path / 'none.pt'}: give a .safetensors file" in refusal(tmp_path / "none.pt")
    (tmp_path / "weights.onnx").write_bytes(b"")
    assert "is no known kind of checkpoint: give a .safetensors file" in refusal(tmp_path / "weights.onnx")


def test_names_are_read_from_a_pickle_without_importing_them(tmp_path: Path) -> None:
    path = tmp_path / "text.pkl"
    path.write_bytes(b"cno_such_module\nand_no_function\n(tR.")
    assert pickled_names(path) == ["no_such_module.and_no_function"]
    assert "would call no_such_module.and_no_function" in refusal(path.rename(tmp_path / "text.pt"))
