"""A mistake in a recipe, a key or a value: one line, exit code 2, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ease.errors import ConfigError

from .commands import Ease

FILES = {
    "empty.yaml": (b"", "empty.yaml: a recipe is a mapping"),
    "list.yaml": (b"- standard\n", "list.yaml: a recipe is a mapping"),
    "latin.yaml": (b"description: caf\xe9\n", "latin.yaml is not UTF-8 (byte 16)"),
    "broken.yaml": (b"model: [1\n", "broken.yaml: not valid YAML"),
    "bare.yml": (b"model: {dim: 16}\n", "bare.yml: strategy: Field required"),
    "overlay.yaml": (
        b"protocol: reference\nreference: 3\nstrategy: {name: standard}\n",
        "overlay.yaml: reference",
    ),
}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("optim.lrr=1", "unknown key optim.lrr: did you mean optim.lr?"),
        ("strategy.weight=1", "unknown key strategy.weight: did you mean strategy.weights?"),
        ("modle.dim=16", "unknown key modle: did you mean model.dim?"),
        ("zzz=1", "unknown key zzz"),
        ("model.dim='16'", "model.dim: Input should be a valid integer (got '16')"),
        ("model.dim=16.0", "model.dim: Input should be a valid integer"),
        ("model.dim=true", "model.dim: Input should be a valid integer (got True)"),
        ("optim.lr=fast", "optim.lr: Input should be a valid number (got 'fast')"),
        ("optim.lr=.nan", "optim.lr: Input should be a finite number (got nan)"),
        ("optim.lr=.inf", "optim.lr: Input should be a finite number (got inf)"),
        ("optim.lr=-1e-3", "optim.lr: Input should be greater than 0"),
        ("stop.patience=0", "stop.patience: "),
        ("stop.max_epochs=null", "stop.max_epochs: "),
        ("seed=-1", "seed: "),
        ("protocol=honset", "protocol: Input should be 'honest' or 'reference' (got 'honset')"),
        ("device=tpu", "device: "),
        ("model.exits=[9]", "layer 9 is out of range: the model has 4 layers"),
        ("model.exits=[0]", "layer 0 is out of range"),
        ("model.exits=[4, 2]", "different layers in order"),
        ("model.exits=4", "model.exits: "),
        ("model.num_heads=3", "dim (128) must be a multiple of num_heads (3)"),
        ("model.num_kv_heads=3", "num_heads (4) must be a multiple of num_kv_heads (3)"),
        ("model=3", "model: Input should be an object (got 3)"),
        ("data=null", "data: Input should be an object (got None)"),
        ("data.tokenizer=words", "data.tokenizer: unknown tokenizer 'words'"),
        ("data.fields=[]", "data.fields: "),
        ("optim.lr", "--set 'optim.lr': write key=value"),
        ("=3", "--set '=3': write key=value"),
        ("optim.lr=[", "--set 'optim.lr=[': not valid YAML"),
        ("optim.lr=!!python/name:os.system", "not valid YAML"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(
    ease: Ease, tmp_path: Path, setting: str, message: str
) -> None:
    answer = ease("train", "quickstart", "--set", setting, "--set", "stop.max_steps=1")
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.complaint
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_recipe_file_is_one_line_that_names_it(
    ease: Ease, tmp_path: Path, name: str
) -> None:
    data, message = FILES[name]
    (tmp_path / name).write_bytes(data)
    answer = ease("train", name)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.complaint
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("quikstart", "unknown recipe 'quikstart': did you mean quickstart?"),
        ("xyz", "there are deep-supervision, discriminative, quickstart, standard"),
        ("gone.yaml", "cannot read gone.yaml: No such file or directory"),
        ("folder.yaml", "cannot read folder.yaml: Is a directory"),
    ],
)
def test_a_recipe_that_is_not_there_is_one_line(
    ease: Ease, tmp_path: Path, recipe: str, message: str
) -> None:
    (tmp_path / "folder.yaml").mkdir()
    answer = ease("train", recipe)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.complaint
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--debug", "train", "nono"), ("train", "nono", "--debug")])
def test_debug_lets_the_traceback_through(ease: Ease, arguments: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="unknown recipe 'nono'"):
        ease(*arguments)
