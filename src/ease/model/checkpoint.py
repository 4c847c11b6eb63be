"""Weights in a model folder: `config.json` and `model.safetensors`, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ease.errors import DataError
from ease.model.config import ModelConfig
from ease.model.staged_lm import StagedLM
from ease.storage import write_text

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"


def save_model(model: StagedLM, folder: Path) -> None:
    """Write the model into `folder`. A weight that several heads share is stored once.

    Inside `write_folder` this is one step; the order makes it safe on its own as well.
    """
    # safetensors writes through Rust and reports a full disk as its own error.
    try:
        weights = {name: weight.detach().cpu() for name, weight in model.named_parameters()}
        save_file(weights, folder / WEIGHTS_FILE, metadata={"format": "pt"})
        (folder / WEIGHTS_FILE).chmod(0o644)  # safetensors makes it the owner's alone
    except SafetensorError as error:
        raise OSError(str(error)) from error
    write_text(folder / CONFIG_FILE, model.config.model_dump_json(indent=2) + "\n")


def load_model(folder: Path, device: str | torch.device = "cpu") -> StagedLM:
    """Read a model folder back, bit for bit."""
    config_path, weights_path = folder / CONFIG_FILE, folder / WEIGHTS_FILE
    for path in (config_path, weights_path):
        if not path.is_file():
            raise DataError(f"{folder} is not a model folder: it has no {path.name}")
    try:
        config = ModelConfig.model_validate_json(config_path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(f"{config_path}: {key}: {first['msg']}") from error
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
