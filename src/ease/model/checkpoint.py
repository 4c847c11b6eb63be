"""Weights in a model folder: `config.json` and `model.safetensors`, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ease.errors import DataError
from ease.model.classic import ClassicTransformer, staged
from ease.model.config import ModelConfig
from ease.model.staged_lm import StagedLM
from ease.settings import explain
from ease.storage import write_file, write_text

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"


def save_model(model: StagedLM | ClassicTransformer, folder: str | Path) -> None:
    """Write a model into a folder. A weight that several heads share is stored once.

    >>> import tempfile
    >>> from ease import StandardTransformer, load_model, save_model
    >>> model = StandardTransformer(vocab_size=10, dim=8, num_layers=2, num_heads=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, folder)
    ...     load_model(folder).num_layers
    2
    """
    lm = staged(model)
    weights = {name: weight.detach().cpu() for name, weight in lm.named_parameters()}
    write_file(Path(folder) / WEIGHTS_FILE, lambda beside: _save_weights(weights, beside))
    write_text(Path(folder) / CONFIG_FILE, lm.config.model_dump_json(indent=2) + "\n")


def _save_weights(weights: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(weights, path, metadata={"format": "pt"})
    except SafetensorError as error:  # its own word for a full disk
        raise OSError(str(error)) from error
    path.chmod(0o644)  # safetensors makes it the owner's alone


def load_model(folder: str | Path, device: str | torch.device = "cpu") -> StagedLM:
    """Read a model folder back, bit for bit: see `save_model`.

    >>> from ease import load_model
    >>> load_model("no/such/folder")
    Traceback (most recent call last):
    ease.errors.DataError: no/such/folder is not a model folder: it has no config.json
    """
    folder = Path(folder)
    config_path, weights_path = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    for path in (config_path, weights_path):
        if not path.is_file():
            raise DataError(f"{folder} is not a model folder: it has no {path.name}")
    try:
        config = ModelConfig.model_validate_json(config_path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{config_path}: {explain(error)}") from None
    try:
        weights = load_file(weights_path)
    except SafetensorError as error:
        raise DataError(f"{weights_path} is damaged: {error}") from error
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in StagedLM(config).named_parameters()}
    found = {name: weight.shape for name, weight in weights.items()}
    if shapes != found:
        wrong = sorted(name for name in shapes | found if shapes.get(name) != found.get(name))
        raise DataError(f"{weights_path} does not fit {config_path}: first at {wrong[0]}")
    model = StagedLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(weights[name])
    return model.to(device)
