from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ease import ConfigError, RunConfig, load_recipe, recipe_names
from ease.recipes import known_keys, load_config

RATES = st.floats(min_value=1e-12, max_value=1e3)
SPELLINGS = st.sampled_from(
    [repr, "{:.3e}".format, "{:e}".format, "{:.6f}".format, "{:.2E}".format]
)
LAYERS = st.sets(st.integers(1, 12)).map(sorted)


def round_trip(config: RunConfig, folder: Path) -> RunConfig:
    path = folder / "config.yaml"
    path.write_text(config.as_yaml(), encoding="utf-8")
    return load_config(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("configurations")


@pytest.mark.parametrize("protocol", ["honest", "reference"])
@pytest.mark.parametrize("recipe", recipe_names())
def test_every_recipe_is_the_same_after_it_was_saved(
    recipe: str, protocol: str, folder: Path
) -> None:
    config = load_recipe(recipe, [f"protocol={protocol}"])
    assert round_trip(config, folder) == config


@given(
    rate=RATES,
    layers=LAYERS,
    patience=st.none() | st.integers(1, 10**6),
    seed=st.integers(0, 2**32),
    fields=st.lists(st.text(min_size=1), min_size=1, max_size=3),
    weights=st.lists(RATES, min_size=1, max_size=3) | st.sampled_from(["equal", "depth"]),
)
def test_every_value_that_can_be_set_is_what_is_used_and_saved(
    folder: Path,
    rate: float,
    layers: list[int],
    patience: int | None,
    seed: int,
    fields: list[str],
    weights: list[float] | str,
) -> None:
    config = load_recipe(
        "quickstart",
        [
            "model.num_layers=12",
            f"optim.lr={rate!r}",
            f"model.exits={layers}",
            f"stop.patience={json.dumps(patience)}",
            f"seed={seed}",
            f"data.fields={json.dumps(fields)}",
            f"strategy.weights={weights}",
        ],
    )
    assert config.optim.lr == rate
    assert config.model.exits == tuple(layers)
    assert config.stop.patience == patience
    assert config.seed == seed
    assert config.data.fields == tuple(fields)
    assert config.strategy.model_dump()["weights"] in (weights, tuple(weights))
    assert round_trip(config, folder) == config


@given(rate=RATES, spell=SPELLINGS)
def test_a_number_may_be_spelt_as_people_do(rate: float, spell: Any) -> None:
    spelt = spell(rate)
    if float(spelt) > 0:
        assert load_recipe("standard", [f"optim.lr={spelt}"]).optim.lr == float(spelt)


@pytest.mark.parametrize(
    ("spelt", "value"), [("1e-4", 1e-4), ("1E-4", 1e-4), ("1.e-4", 1e-4), ("2", 2.0), ("+3e0", 3.0)]
)
def test_a_number_without_a_point_is_a_number(spelt: str, value: float, folder: Path) -> None:
    (folder / "rates.yaml").write_text(f"strategy: {{name: standard}}\noptim: {{lr: {spelt}}}\n")
    assert load_recipe(str(folder / "rates.yaml")).optim.lr == value
    assert load_recipe("standard", [f"optim.lr={spelt}"]).optim.lr == value


def test_the_last_of_two_settings_wins() -> None:
    assert load_recipe("standard", ["seed=1", "optim.lr=1e-2", "seed=2"]).seed == 2


def test_a_setting_changes_its_key_and_no_other() -> None:
    before = load_recipe("quickstart").model_dump()
    after = load_recipe("quickstart", ["optim.lr=0.5"]).model_dump()
    before["optim"]["lr"] = 0.5
    assert after == before


SPECIFICATION = {
    "seed": 42,
    "data": {
        "source": "hf:Salesforce/wikitext",
        "subset": "wikitext-2-raw-v1",
        "streaming": False,
        "max_documents": None,
        "fields": ("text",),
        "tokenizer": "word",
        "seq_len": 32,
        "samples": 10_000,
    },
    "model": {
        "dim": 64,
        "num_heads": 4,
        "num_kv_heads": None,
        "ffn_dim": None,
        "norm": "post",
        "final_norm": False,
        "qkv_bias": False,
        "qk_norm": False,
        "rope_theta": 10_000.0,
        "dropout": 0.0,
    },
    "optim": {
        "lr": 1e-3,
        "weight_decay": 0.01,
        "warmup_steps": 0,
        "schedule": "constant",
        "grad_clip": 1.0,
        "batch_size": 64,
        "accumulate": 1,
        "precision": "fp32",
    },
    "stop": {"max_epochs": 50, "max_steps": None, "patience": 1, "evaluate_every": None},
}
ODD = """
protocol: reference
seed: 7
data: {source: text.txt, tokenizer: byte, vocab_size: 300, seq_len: 5, samples: 3}
model: {dim: 32, num_layers: 3, exits: [1], num_heads: 2, num_kv_heads: 1, ffn_dim: 10,
        head: tied, qkv_bias: true, qk_norm: true, rope_theta: 5.0, dropout: 0.5}
strategy: {name: standard}
optim: {lr: 0.5, weight_decay: 0.5, warmup_steps: 9, schedule: cosine, grad_clip: 9.0,
        batch_size: 3, accumulate: 2, precision: bf16}
stop: {max_epochs: 2, max_steps: 7, patience: 5, evaluate_every: 3}
"""


def assert_of_the_specification(config: RunConfig) -> None:
    values = config.model_dump()
    assert values["seed"] == SPECIFICATION["seed"]
    for section in ("data", "model", "optim", "stop"):
        wanted: Any = SPECIFICATION[section]
        assert {key: values[section][key] for key in wanted} == wanted


@pytest.mark.parametrize("recipe", recipe_names())
def test_reference_resets_every_key_to_the_specifications(recipe: str) -> None:
    assert_of_the_specification(load_recipe(recipe, ["protocol=reference"]))


def test_reference_leaves_nothing_of_a_recipes_own_values(folder: Path) -> None:
    (folder / "odd.yaml").write_text(ODD)
    config = load_recipe(str(folder / "odd.yaml"))
    assert_of_the_specification(config)
    assert (config.recipe, config.model.head) == ("odd", "own")
    honest = load_recipe(str(folder / "odd.yaml"), ["protocol=honest"])
    assert honest.model_dump()["optim"] == yaml.safe_load(ODD)["optim"]


def test_reference_of_the_plain_model_is_stage_1_of_the_specifications_system() -> None:
    shape = load_recipe("standard", ["protocol=reference"]).model.build(69_830)
    assert (shape.num_layers, shape.exits) == (2, (2,))
    assert (shape.ffn_dim, shape.head_dim, shape.num_kv_heads) == (256, 16, 4)


def test_reference_keeps_what_a_recipe_is_about() -> None:
    deep = load_recipe("deep-supervision", ["protocol=reference"])
    assert (deep.model.exits, deep.model.head) == ((1, 2, 3, 4), "shared")
    assert deep.strategy.name == "deep_supervision"


@pytest.mark.parametrize(
    ("setting", "section", "key", "value"),
    [
        ("model.dim=128", "model", "dim", 128),
        ("model.norm=pre", "model", "norm", "pre"),
        ("data.tokenizer=bpe", "data", "tokenizer", "bpe"),
        ("data.samples=null", "data", "samples", None),
        ("optim.lr=1e-4", "optim", "lr", 1e-4),
        ("stop.patience=null", "stop", "patience", None),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_setting_wins_over_the_reference_protocol(
    setting: str, section: str, key: str, value: object, first: bool
) -> None:
    chosen = [setting, "protocol=reference"] if first else ["protocol=reference", setting]
    changed = load_recipe("standard", chosen).model_dump()
    plain = load_recipe("standard", ["protocol=reference"]).model_dump()
    assert changed[section][key] == value
    plain[section][key] = value
    assert changed == plain


def test_another_source_drops_the_subset_of_the_references_own() -> None:
    config = load_recipe("standard", ["protocol=reference", "data.source=text.txt"])
    assert (config.data.source, config.data.subset) == ("text.txt", None)
    chosen = ["protocol=reference", "data.source=hf:owner/name", "data.subset=large"]
    assert load_recipe("standard", chosen).data.subset == "large"


@given(key=st.sampled_from(known_keys()), letter=st.characters(categories=["Ll"]))
def test_an_unknown_key_is_refused_with_its_whole_path(key: str, letter: str) -> None:
    wrong = f"{key}{letter}x"
    with pytest.raises(ConfigError) as raised:
        load_recipe("quickstart", [f"{wrong}=1"])
    assert f"unknown key {wrong}" in str(raised.value)
    assert "\n" not in str(raised.value)


@given(value=st.sampled_from([math.nan, math.inf, -math.inf]))
@pytest.mark.parametrize(
    "key", ["optim.lr", "optim.weight_decay", "model.rope_theta", "model.dropout"]
)
def test_a_number_that_is_not_finite_is_refused(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{key}: "):
        load_recipe("standard", [f"{key}={yaml.safe_dump(value).split()[0]}"])


def test_a_configuration_never_changes() -> None:
    config = load_recipe("standard")
    with pytest.raises(ValueError, match="frozen"):
        config.optim.lr = 1.0  # type: ignore[misc]


def test_another_strategy_may_be_set_on_a_recipe() -> None:
    assert load_recipe("standard", ["strategy.name=discriminative"]).strategy.name == (
        "discriminative"
    )


def test_another_strategy_drops_the_recipes_keys_and_knows_its_own() -> None:
    config = load_recipe("quickstart", ["strategy.name=discriminative", "strategy.decay=3"])
    assert config.strategy.model_dump() == {"name": "discriminative", "decay": 3.0}
    with pytest.raises(ConfigError, match=r"strategy\.decay is a key of another strategy"):
        load_recipe("quickstart", ["strategy.name=standard", "strategy.decay=3"])


def test_a_local_source_is_kept_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("some words")
    monkeypatch.chdir(tmp_path)
    config = load_recipe("standard", ["data.source=text.txt"])
    assert config.data.source == str(tmp_path.resolve() / "text.txt")


@pytest.mark.parametrize("value", ["xx", "[1, a]", "[.nan]"])
def test_the_key_of_a_value_of_several_kinds_is_named_as_a_recipe_spells_it(value: str) -> None:
    with pytest.raises(ConfigError, match=r"deep-supervision: strategy\.weights: "):
        load_recipe("deep-supervision", [f"strategy.weights={value}"])
