"""Every recipe that is shipped is run, under both protocols, on a text of a few thousand words."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from ease import load_model, load_recipe, recipe_names, train_recipe
from ease.recipes import load_config

SMALL = ["device=cpu", "model.dim=16", "optim.batch_size=3", "stop.max_steps=2"]
SMALL += ["stop.evaluate_every=1"]
HASH = re.compile("[0-9a-f]{64}")
FIGURES = {"ppl", "acc", "loss", "tokens"}


def run(recipe: str, source: Path, protocol: str) -> tuple[Path, dict[str, Any]]:
    chosen = [f"data.source={source}", f"protocol={protocol}", *SMALL]
    if protocol == "honest":
        chosen += ["data.tokenizer=byte", "data.seq_len=16"]
    return train_recipe(recipe, chosen, Path("run"))


def check_figures(result: dict[str, Any], exits: list[int]) -> None:
    for split in result["splits"].values():
        assert split.keys() == FIGURES | {"exits"}
        assert list(split["exits"]) == [str(layer) for layer in exits]
        for figures in split["exits"].values():
            assert figures.keys() == FIGURES
            assert math.isclose(figures["ppl"], math.exp(figures["loss"]), rel_tol=1e-12)
            assert 0 <= figures["acc"] <= 1
            assert figures["tokens"] > 0
        last = split["exits"][str(exits[-1])]
        assert {key: split[key] for key in FIGURES} == last


def check_metrics(path: Path, exits: list[int]) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["step"] for record in records] == [1, 2]
    for record in records:
        assert record.keys() == {
            "phase", "epoch", "step", "train_loss", "exits", "improved", "since_best"
        }  # fmt: skip
        assert list(record["exits"]) == [str(layer) for layer in exits]
        assert all(figures.keys() == FIGURES for figures in record["exits"].values())


@pytest.mark.parametrize("protocol", ["honest", "reference"])
@pytest.mark.parametrize("recipe", recipe_names())
def test_a_recipe_trains_and_leaves_a_whole_run_folder(
    recipe: str, protocol: str, source: Path
) -> None:
    folder, result = run(recipe, source, protocol)
    assert json.loads((folder / "result.json").read_text()) == result
    config = load_config(folder / "config.yaml")
    assert (config.recipe, config.protocol, config.model.dim) == (recipe, protocol, 16)
    model = load_model(folder / "model")
    parameters = {id(weight): weight.numel() for weight in model.parameters()}

    assert (result["recipe"], result["seed"]) == (recipe, 42)
    assert result["protocol"] == protocol
    assert result["held_out"] is (protocol == "honest")
    assert ("not held out" in result.get("note", "")) is (protocol == "reference")
    assert result["model"]["parameters"] == sum(parameters.values())
    assert result["model"]["exits"] == list(model.exits)
    assert result["data"]["name"] == "text.txt"
    parts = ["train", "validation", "test"]
    if protocol == "honest":
        parts[1:2] = ["selection", "calibration", "gate"]
    assert list(result["data"]["hashes"]) == list(result["data"]["tokens"]) == parts
    assert all(HASH.fullmatch(value) for value in result["data"]["hashes"].values())
    judged = "selection" if protocol == "honest" else "validation"
    assert list(result["splits"]) == [judged, "test"]
    assert result["time"].keys() == {"train_seconds", "test_seconds", "threads"}
    assert result["time"]["train_seconds"] > 0
    assert {"ease", "torch", "python", "tokenizers", "device"} <= result["versions"].keys()
    check_figures(result, list(model.exits))
    check_metrics(folder / "metrics.jsonl", list(model.exits))
    assert (folder / "checkpoints" / "state.pt").is_file()


def test_the_same_seed_gives_the_same_run_and_another_seed_another(source: Path) -> None:
    def perplexities(name: str, seed: int) -> list[float]:
        chosen = [f"data.source={source}", "data.tokenizer=byte", "data.seq_len=16", *SMALL]
        _, result = train_recipe("quickstart", [*chosen, f"seed={seed}"], Path(name))
        return [split["ppl"] for split in result["splits"].values()]

    first = perplexities("a", 1)
    assert perplexities("b", 1) == first
    assert perplexities("c", 2) != first


def test_the_best_weights_are_the_ones_that_are_kept_and_tested(source: Path) -> None:
    # So high a rate makes the second evaluation worse than the first.
    chosen = [f"data.source={source}", "data.tokenizer=byte", "data.seq_len=16", *SMALL]
    chosen += ["optim.lr=2.0", "optim.warmup_steps=1", "stop.max_steps=6", "stop.patience=null"]
    folder, result = train_recipe("quickstart", chosen, Path("run"))
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["exits"]["4"]["loss"] for line in lines]
    assert min(losses) < losses[-1]
    assert result["splits"]["selection"]["loss"] == min(losses)


def test_every_recipe_says_what_it_trains() -> None:
    for name in recipe_names():
        config = load_recipe(name)
        assert config.recipe == name
        assert config.description.endswith(".") or ";" in config.description
        assert config.protocol == "honest"
