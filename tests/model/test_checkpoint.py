from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ease import DataError, StagedLM, StageShape, StorageError, load_model, save_model
from ease.model.config import HeadKind
from ease.storage import write_folder
from model.tiny import random_ids, randomise, tiny_model

HEADS: list[tuple[HeadKind, HeadKind]] = [
    ("own", "own"),
    ("own", "shared"),
    ("own", "tied"),
    ("tied", "own"),
    ("tied", "shared"),
    ("tied", "tied"),
]


def two_heads(first: HeadKind, second: HeadKind) -> StagedLM:
    shapes = (StageShape(layers=1, head=first), StageShape(layers=2, norm="post", head=second))
    return randomise(tiny_model(*shapes, qkv_bias=True, qk_norm=True, dropout=0.5), 3)


@pytest.mark.parametrize(("first", "second"), HEADS)
def test_a_model_comes_back_bit_for_bit(tmp_path: Path, first: HeadKind, second: HeadKind) -> None:
    model = two_heads(first, second)
    save_model(model, tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.config == model.config
    weights = dict(model.named_parameters())
    found = dict(loaded.named_parameters())
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    ids = random_ids(2, 5)
    for one, two in zip(model.eval()(ids), loaded.eval()(ids), strict=True):
        assert torch.equal(one.logits(), two.logits())


@pytest.mark.parametrize(("first", "second"), HEADS)
def test_a_shared_head_is_stored_once_and_comes_back_shared(
    tmp_path: Path, first: HeadKind, second: HeadKind
) -> None:
    save_model(two_heads(first, second), tmp_path)
    stored = [name for name in load_file(tmp_path / "model.safetensors") if "head" in name]
    assert len(stored) == [first, second].count("own")
    loaded = load_model(tmp_path)
    heads = [stage.head.weight for stage in loaded.stages]
    assert (heads[0] is loaded.embedding.weight) == (first == "tied")
    assert (heads[1] is heads[0]) == (second == "shared" or (first, second) == ("tied", "tied"))


def test_a_folder_holds_two_files_and_saving_again_replaces_them(tmp_path: Path) -> None:
    for seed in (1, 2):
        save_model(randomise(tiny_model(), seed), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    again = randomise(tiny_model(), 2).embedding.weight
    assert torch.equal(load_model(tmp_path).embedding.weight, again)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    save_model(tiny_model(), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(DataError, match=f"is not a model folder: it has no {name}"):
        load_model(tmp_path)


def test_a_folder_that_is_not_there_is_no_model_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere is not a model folder: it has no config\.json"):
        load_model(tmp_path / "nowhere")


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_damaged_weights_are_refused(tmp_path: Path, kept: int) -> None:
    save_model(tiny_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"model\.safetensors is damaged"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "Invalid JSON"),
        (b"\xff\xfe", "Invalid JSON"),
        (b"[]", "Input should be an object"),
        (b'{"dim": 8}', "vocab_size: Field required"),
    ],
)
def test_a_damaged_shape_is_refused_with_its_key(tmp_path: Path, text: bytes, message: str) -> None:
    save_model(tiny_model(), tmp_path)
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(DataError, match=rf"config\.json: {message}"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "first"),
    [
        ("dim", 10, "embedding.weight"),
        # Nothing of this size may be built before it is refused.
        ("vocab_size", 10**12, "embedding.weight"),
        ("qkv_bias", True, "stages.0.blocks.0.attention.qkv_proj.bias"),
        ("ffn_dim", 13, "stages.0.blocks.0.feed_forward.down_proj.weight"),
    ],
)
def test_weights_of_another_shape_are_refused(
    tmp_path: Path, key: str, value: object, first: str
) -> None:
    save_model(tiny_model(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(DataError, match=f"does not fit .*config.json: first at {first}$"):
        load_model(tmp_path)


def test_a_weight_too_many_is_refused(tmp_path: Path) -> None:
    save_model(tiny_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    save_file({**load_file(path), "another": torch.zeros(1)}, path)
    with pytest.raises(DataError, match="first at another"):
        load_model(tmp_path)


def test_inside_a_written_folder_a_failure_is_a_storage_error(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with pytest.raises(StorageError, match=f"could not write {target}: .*No such file"):
        write_folder(target, lambda folder: (folder / "missing" / "file").write_text("x"))
    assert list(tmp_path.iterdir()) == []


def test_loading_leaves_the_random_numbers_usable_and_the_weights_trainable(tmp_path: Path) -> None:
    save_model(tiny_model(), tmp_path)
    loaded = load_model(tmp_path, device=torch.device("cpu"))
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    loaded(random_ids(1, 4))[-1].loss(random_ids(1, 4)).backward()
    assert all(p.grad is not None for p in loaded.stages[1].parameters())
