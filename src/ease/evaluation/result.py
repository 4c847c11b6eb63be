"""`result.json`: the figures of a run, and what a reader needs to trust them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import torch

from ease.evaluation.perplexity import Figures
from ease.model import StagedLM

NOT_HELD_OUT = "reference protocol: not held out"


def split_result(exits: Mapping[int, Figures]) -> dict[str, Any]:
    """A split's figures are the deepest exit's; every exit stands below as if all left there."""
    return {
        **exits[max(exits)].as_json(),
        "exits": {str(layer): figures.as_json() for layer, figures in exits.items()},
    }


def model_result(model: StagedLM) -> dict[str, Any]:
    return {
        "parameters": model.num_parameters(),
        "num_layers": model.num_layers,
        "exits": list(model.exits),
        **model.config.model_dump(include={"dim", "vocab_size", "num_heads"}),
    }


def protocol_result(protocol: str) -> dict[str, Any]:
    held_out = protocol == "honest"
    note = {} if held_out else {"note": NOT_HELD_OUT}
    return {"protocol": protocol, "held_out": held_out, **note}


def versions(device: torch.device) -> dict[str, str]:
    """What ran, and on what."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    installed = {}
    for package, distribution in {"ease": "ease-lm", "tokenizers": "tokenizers"}.items():
        try:
            installed[package] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            installed[package] = "unknown"
    return {
        **installed,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": f"{device.type} ({name})",
    }
