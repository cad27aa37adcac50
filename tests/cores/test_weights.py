"""Weights out and in again: equal to the bit, whole or not at all, and never by running what a file says."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from fixtures.checkpoints import UnsafePickleError, WeightsError, pickled_names
from fixtures.cores import bisenet, segmentation
from fixtures.weights import load_into, save_as


def pair(inputs: int = 3, outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs))


def changed(module: nn.Module) -> nn.Module:
    """The same module with other weights."""
    with torch.no_grad():
        for value in module.state_dict().values():
            value.copy_(torch.rand(value.shape) * 9 + 1)
    return module


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    """To the bit: the same names, dtypes and values."""
    return list(one) == list(two) and all(
        one[key].dtype == two[key].dtype and torch.equal(one[key], two[key]) for key in one
    )


def refusal(module: nn.Module, path: Path, kind: type[WeightsError] = WeightsError) -> str:
    """The one line of the error, after checking that the module was left as it was."""
    before = snapshot(module)
    with pytest.raises(kind) as caught:
        load_into(module, path)
    assert equal(before, module.state_dict())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_core_comes_back_equal_to_the_bit(tmp_path: Path, suffix: str) -> None:
    saved = changed(segmentation.build_tiny())
    save_as(saved, tmp_path / f"weights{suffix}")
    loaded = segmentation.build_tiny()
    assert not equal(loaded.state_dict(), saved.state_dict())
    load_into(loaded, tmp_path / f"weights{suffix}")
    assert equal(loaded.state_dict(), saved.state_dict())
    preset = segmentation.CORES[0].presets["tiny"]
    inputs = preset.inputs(preset.shapes[0], 1)
    assert torch.equal(loaded(**inputs), saved(**inputs))
    assert os.listdir(tmp_path) == [f"weights{suffix}"]


def tiny_llama(hidden: int = 16, seed: int = 0) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 40}
    return LlamaForCausalLM(LlamaConfig(hidden_size=hidden, intermediate_size=24, tie_word_embeddings=True, **sizes))


def test_a_hugging_face_folder_is_loaded_as_its_library_does(tmp_path: Path) -> None:
    saved = tiny_llama(seed=1)
    saved.to(torch.bfloat16).save_pretrained(tmp_path)
    loaded = tiny_llama(seed=2)
    load_into(loaded, tmp_path)
    assert loaded.lm_head.weight.dtype == torch.float32
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight  # still tied
    assert all(torch.equal(value, saved.state_dict()[key].float()) for key, value in loaded.state_dict().items())
    load_into(tiny_llama(seed=3), tmp_path / "model.safetensors")  # tied weights are stored once


def test_a_folder_of_another_model_is_refused(tmp_path: Path) -> None:
    tiny_llama(hidden=32).save_pretrained(tmp_path)
    message = refusal(tiny_llama(hidden=16), tmp_path)
    assert (
        "does not fit LlamaForCausalLM: 12 shapes: model.embed_tokens.weight is [40, 32] and should be [40, 16]"
        in message
    )


def test_a_folder_without_weights_says_what_it_should_hold(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert f"no weights in {tmp_path}: it should hold one of model.safetensors," in refusal(tiny_llama(), tmp_path)


class Marker:
    """A harmless attack: unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("protocol", [0, 2, 4, "zip", "folder"])
def test_a_pickle_that_would_run_code_is_refused_by_name(tmp_path: Path, protocol: int | str) -> None:
    marker, path = tmp_path / "marker", tmp_path / "weights.pt"
    attack = {"0.weight": Marker(marker), "0.bias": 1.5}
    if protocol == "folder":
        path = tmp_path / "pytorch_model.bin"
    if isinstance(protocol, int):
        path.write_bytes(pickle.dumps(attack, protocol))
        pickle.loads(path.read_bytes())["0.weight"].close()
    else:
        torch.save(attack, path)
        torch.load(path, weights_only=False)["0.weight"].close()
    assert marker.exists()  # it is a real attack
    marker.unlink()
    message = refusal(pair(), tmp_path if protocol == "folder" else path, UnsafePickleError)
    called = f"{open.__module__}.open"  # io, and since Python 3.12 _io
    assert message.startswith(f"refused {path}: reading this pickle would call {called}; save the model's state_dict()")
    assert not marker.exists()


def test_a_whole_pickled_module_is_refused_by_its_class(tmp_path: Path) -> None:
    torch.save(pair(), tmp_path / "whole.pt")
    message = refusal(pair(), tmp_path / "whole.pt", UnsafePickleError)
    assert "would call" in message
    assert "torch.nn.modules" in " ".join(pickled_names(tmp_path / "whole.pt"))


def test_a_checkpoint_of_another_core_names_the_first_five_keys(tmp_path: Path) -> None:
    save_as(bisenet.build_tiny(), tmp_path / "bisenet.safetensors")
    ours = segmentation.build_tiny()
    message = refusal(ours, tmp_path / "bisenet.safetensors")
    keys, theirs = list(ours.state_dict()), sorted(bisenet.build_tiny().state_dict())
    assert message.startswith(f"{tmp_path / 'bisenet.safetensors'} does not fit Logits: ")
    assert f"{len(keys)} missing keys: {', '.join(keys[:5])}, …; " in message
    assert f"{len(theirs)} unknown keys: " in message
    assert keys[5] not in message
    assert message.endswith("give a checkpoint of this core")


def test_wrong_shapes_and_dtypes_are_told_with_what_they_should_be(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    state = pair(inputs=4).state_dict() | {"0.bias": torch.zeros(2, dtype=torch.int32)}
    save_file(state | {"1.running_var": torch.ones(2, dtype=torch.float64)}, tmp_path / "wrong.safetensors")
    assert refusal(pair(), tmp_path / "wrong.safetensors") == (
        f"{tmp_path / 'wrong.safetensors'} does not fit Sequential: 1 shapes: 0.weight is [2, 4] and should be [2, 3]; "
        "2 dtypes: 0.bias is int32 and should be float32, 1.running_var is float64 and should be float32; "
        "give a checkpoint of this core"
    )


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_a_16_bit_checkpoint_widens_without_loss_and_a_wide_one_does_not_shrink(
    tmp_path: Path, stored: torch.dtype
) -> None:
    saved = changed(nn.Linear(3, 2)).to(stored)
    save_as(saved, tmp_path / "half.safetensors")
    loaded = nn.Linear(3, 2)
    load_into(loaded, tmp_path / "half.safetensors")
    assert equal(loaded.state_dict(), {key: value.float() for key, value in saved.state_dict().items()})
    save_as(nn.Linear(3, 2), tmp_path / "whole.safetensors")
    assert "2 dtypes: weight is float32 and should be" in refusal(saved, tmp_path / "whole.safetensors")


def test_a_training_checkpoint_gives_its_model(tmp_path: Path) -> None:
    saved = changed(pair())
    optimizer = torch.optim.Adam(saved.parameters()).state_dict()
    torch.save({"model": saved.state_dict(), "optimizer": optimizer, "iteration": 7}, tmp_path / "G_7.pth")
    loaded = pair()
    load_into(loaded, tmp_path / "G_7.pth")
    assert equal(loaded.state_dict(), saved.state_dict())
    torch.save({"ema": saved.state_dict(), "model": saved.state_dict()}, tmp_path / "two.pth")
    assert "should hold one dictionary of tensors by name, and holds 2 of them" in refusal(pair(), tmp_path / "two.pth")


def test_what_a_module_renames_as_it_loads_is_compared_under_its_new_name(tmp_path: Path) -> None:
    loaded = weight_norm(nn.Conv1d(3, 2, 1))
    old = {"bias": torch.rand(2), "weight_g": torch.rand(2, 1, 1), "weight_v": torch.rand(2, 3, 1)}
    torch.save(old, tmp_path / "old.pt")
    load_into(loaded, tmp_path / "old.pt")
    assert torch.equal(loaded.parametrizations.weight.original1, old["weight_v"])
    assert torch.equal(loaded.bias, old["bias"])


def test_what_a_module_leaves_out_on_purpose_may_be_there(tmp_path: Path) -> None:
    whole = nn.ModuleDict({"encoder": nn.Linear(2, 2), "decoder": nn.Linear(2, 2)})
    save_as(whole, tmp_path / "whole.safetensors")
    half = nn.ModuleDict({"decoder": nn.Linear(2, 2)})
    assert "2 unknown keys: encoder.bias, encoder.weight;" in refusal(half, tmp_path / "whole.safetensors")
    half._keys_to_ignore_on_load_unexpected = [r"^encoder\."]  # type: ignore[assignment]
    load_into(half, tmp_path / "whole.safetensors")
    assert equal(half["decoder"].state_dict(), whole["decoder"].state_dict())


def test_a_module_without_weights_takes_none(tmp_path: Path) -> None:
    save_as(nn.ReLU(), tmp_path / "relu.pt")
    assert refusal(nn.ReLU(), tmp_path / "relu.pt") == "ReLU has no weights to load: give none for this core"


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_failed_save_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"taken{suffix}").mkdir()
    for place in (tmp_path / "nowhere" / f"w{suffix}", tmp_path / f"taken{suffix}"):
        with pytest.raises(WeightsError, match=f"cannot write {place}: "):
            save_as(pair(), place)
    assert os.listdir(tmp_path) == [f"taken{suffix}"]


def test_weights_are_saved_in_two_formats_alone(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"cannot save weights as \.onnx: \.safetensors or \.pt"):
        save_as(pair(), tmp_path / "weights.onnx")
    assert os.listdir(tmp_path) == []
