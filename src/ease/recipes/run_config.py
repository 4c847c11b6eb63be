"""A run's whole configuration: a recipe, the protocol's resets, then `--set`, then validated."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from ease.data import DataConfig, ProtocolName
from ease.errors import ConfigError
from ease.model import ModelConfig, StageShape
from ease.model.config import HeadKind, Norm
from ease.settings import Settings, explain
from ease.training import OptimConfig, StopConfig
from ease.training.strategies import StrategyConfig


class ModelSection(Settings):
    """The `model` section of a recipe; with a tokenizer's types it becomes a `ModelConfig`."""

    dim: int = Field(default=128, ge=2, description="Width of the hidden states.")
    num_layers: int = Field(default=4, ge=1, description="Layers in all.")
    exits: tuple[int, ...] = Field(
        default=(), description="Layers that end in an exit, from 1; the last always does."
    )
    num_heads: int = Field(default=4, ge=1, description="Attention heads.")
    num_kv_heads: int | None = Field(
        default=None, ge=1, description="Key-value heads; null: as many as heads."
    )
    ffn_dim: int | None = Field(default=None, ge=1, description="null: 4 x dim.")
    norm: Norm = Field(default="pre", description="pre, or the specification's post.")
    final_norm: bool = Field(default=True, description="A norm between each exit and its head.")
    head: HeadKind = Field(
        default="own", description="own: one an exit; shared: one for all; tied: the embedding."
    )
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_theta: float = Field(default=10_000.0, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.dim % self.num_heads:
            raise ValueError(f"dim ({self.dim}) must be a multiple of num_heads ({self.num_heads})")
        if list(self.exits) != sorted(set(self.exits)):
            raise ValueError(f"exits must be different layers in order, not {list(self.exits)}")
        for layer in self.exits:
            if not 1 <= layer <= self.num_layers:
                raise ValueError(
                    f"exits: layer {layer} is out of range: the model has {self.num_layers} layers"
                )
        try:
            self.build(vocab_size=1)
        except ValidationError as error:
            raise ValueError(explain(error)) from None
        return self

    def build(self, vocab_size: int) -> ModelConfig:
        ends = (*(layer for layer in self.exits if layer != self.num_layers), self.num_layers)
        starts = (0, *ends[:-1])
        return ModelConfig(
            vocab_size=vocab_size,
            dim=self.dim,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads or self.num_heads,
            head_dim=self.dim // self.num_heads,
            ffn_dim=self.ffn_dim or 4 * self.dim,
            stages=tuple(
                StageShape(
                    layers=end - start,
                    norm=self.norm,
                    final_norm=self.final_norm,
                    head="own" if self.head == "shared" and start == 0 else self.head,
                )
                for start, end in zip(starts, ends, strict=True)
            ),
            rope_theta=self.rope_theta,
            qkv_bias=self.qkv_bias,
            qk_norm=self.qk_norm,
            dropout=self.dropout,
        )


class RunConfig(Settings):
    """Everything that decides a run. `config.yaml` of a run folder holds exactly this."""

    recipe: str
    description: str = ""
    seed: int = Field(default=42, ge=0, lt=2**63, description="Decides weights, order and dropout.")
    protocol: ProtocolName = Field(
        default="honest", description="honest, or the specification's reference (not held out)."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto: a GPU where there is one."
    )
    data: DataConfig = DataConfig()
    model: ModelSection = ModelSection()
    strategy: Annotated[StrategyConfig, Field(discriminator="name")]
    optim: OptimConfig = OptimConfig()
    stop: StopConfig = StopConfig()

    def as_yaml(self) -> str:
        text = self.model_dump_json()
        # PyYAML writes the line separator NEL as it is, and reads it back as a newline.
        return yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode="\x85" not in text)


def recipe_names() -> list[str]:
    """The recipes that are shipped.

    >>> from ease import recipe_names
    >>> "quickstart" in recipe_names()
    True
    """
    folder = resources.files("ease.recipes")
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    )


def load_recipe(recipe: str, settings: Sequence[str] = ()) -> RunConfig:
    """A shipped recipe, or a YAML file, with `key=value` settings on top.

    >>> from ease import load_recipe
    >>> config = load_recipe("quickstart", ["optim.lr=1e-4", "model.exits=[1, 4]"])
    >>> config.optim.lr, config.model.exits
    (0.0001, (1, 4))
    """
    name, values = _read_recipe(recipe)
    overlay = values.pop("reference", {})
    if not isinstance(overlay, dict):
        raise ConfigError(f"{recipe}: reference: a mapping of keys to values (got {overlay!r})")
    chosen: dict[str, Any] = {}
    for setting in settings:
        _assign(chosen, setting)
    if chosen.get("protocol", values.get("protocol")) == "reference":
        protocol = resources.files("ease.recipes") / "protocols" / "reference.yaml"
        reset = _merge(parse_yaml(protocol.read_text(encoding="utf-8"), "reference"), overlay)
        values = {**values, **reset}
    if _chooses_other(values, chosen, "strategy", "name"):
        values["strategy"] = {}  # a recipe's keys belong to its own strategy
    if _chooses_other(values, chosen, "data", "source"):
        values["data"].pop("subset", None)  # and its subset to its own source
    return validate({"recipe": name, **_absolute(_merge(values, chosen))}, recipe)


def load_config(path: Path) -> RunConfig:
    """The configuration that a run saved."""
    return validate(_mapping(_read(path), str(path)), str(path))


def validate(values: Mapping[str, Any], where: str) -> RunConfig:
    """JSON is the strict form of YAML here: lists are tuples, and nothing else is converted."""
    try:
        text = json.dumps(values, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: {error}") from None
    try:
        return RunConfig.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_explain(error)}") from None


def _read_recipe(recipe: str) -> tuple[str, dict[str, Any]]:
    if recipe in recipe_names():
        text = (resources.files("ease.recipes") / f"{recipe}.yaml").read_text(encoding="utf-8")
        return recipe, _mapping(text, recipe)
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml"):
        return path.stem, _mapping(_read(path), recipe)
    near = difflib.get_close_matches(recipe, recipe_names(), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(recipe_names())}"
    raise ConfigError(f"unknown recipe {recipe!r}: {hint} (or give a .yaml file)")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})") from None


def _mapping(text: str, where: str) -> dict[str, Any]:
    values = parse_yaml(text, where)
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: a recipe is a mapping of keys to values")
    return values


class _Loader(yaml.SafeLoader):
    """YAML whose floats may be written as people write them: 1e-3 is a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def parse_yaml(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None


def _assign(values: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {setting!r}: write key=value, as in optim.lr=0.001")
    *sections, last = key.strip().split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {setting!r}: {section} is a value, not a section")
    values[last] = parse_yaml(text, f"--set {setting!r}")


def _chooses_other(
    values: Mapping[str, Any], chosen: Mapping[str, Any], section: str, key: str
) -> bool:
    """Does `--set` replace the value of `key` that the recipe has?"""
    old, new = values.get(section), chosen.get(section)
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    return key in old and key in new and old[key] != new[key]


def _absolute(values: dict[str, Any]) -> dict[str, Any]:
    """A local source by its whole path, so that a run finds its text again from anywhere."""
    data = values.get("data")
    if isinstance(data, dict) and isinstance(data.get("source"), str):
        path = Path(data["source"]).expanduser()
        if data["source"] != "stdlib" and path.exists():
            return {**values, "data": {**data, "source": str(path.resolve())}}
    return values


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = _merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _explain(error: ValidationError) -> str:
    """One line on the first mistake, with the key as a recipe spells it."""
    first = error.errors()[0]
    # A location also names the member of a union that was tried: that is no part of the key.
    tried = {config.model_fields["name"].default for config in get_args(StrategyConfig)}
    path = [str(part) for part in first["loc"]]
    key = ".".join(part for part in path if part not in tried and "[" not in part)
    if first["type"] != "extra_forbidden":
        return explain(error, key)
    if key in known_keys():
        return f"{key} is a key of another strategy than the one chosen"
    near = difflib.get_close_matches(key, known_keys(), n=1, cutoff=0.5)
    return f"unknown key {key}" + (f": did you mean {near[0]}?" if near else "")


def known_keys() -> list[str]:
    """Every key that a recipe may have, dotted."""
    return list(dict.fromkeys(_keys(RunConfig, "")))


def _keys(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        members = get_args(field.annotation) or (field.annotation,)
        sections = [m for m in members if isinstance(m, type) and issubclass(m, BaseModel)]
        for section in sections:
            yield from _keys(section, f"{prefix}{name}.")
        if not sections:
            yield f"{prefix}{name}"
