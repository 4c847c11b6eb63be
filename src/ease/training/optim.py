"""AdamW by layer, and its learning rate over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import nn
from torch.optim import AdamW, Optimizer

from ease.errors import ConfigError
from ease.model import StagedLM
from ease.settings import Settings

Precision = Literal["auto", "fp32", "bf16"]


class OptimConfig(Settings):
    """The `optim` section of a recipe."""

    lr: float = Field(default=1e-3, gt=0, description="The highest learning rate.")
    weight_decay: float = Field(default=0.01, ge=0, description="AdamW's decoupled decay.")
    warmup_steps: int = Field(default=0, ge=0, description="Steps of linear warm-up.")
    schedule: Literal["constant", "cosine"] = Field(
        default="constant", description="After warm-up; cosine falls to a tenth of `lr`."
    )
    grad_clip: float = Field(default=1.0, gt=0, description="Largest norm of the gradient.")
    batch_size: int = Field(default=64, ge=1, description="Blocks a step reads at once.")
    accumulate: int = Field(default=1, ge=1, description="Batches whose gradients make one step.")
    precision: Precision = Field(
        default="auto", description="auto is bf16 autocast on a GPU, fp32 on a CPU."
    )

    def autocast_dtype(self, device: torch.device) -> torch.dtype | None:
        """The type matrix products run in, or None for plain float32."""
        wanted = self.precision
        if wanted == "auto":
            wanted = "bf16" if device.type == "cuda" else "fp32"
        return torch.bfloat16 if wanted == "bf16" else None


def learning_rate_factor(config: OptimConfig, step: int, total_steps: int | None) -> float:
    """The share of `lr` that step `step` (from 0) of `total_steps` uses."""
    if step < config.warmup_steps:
        return (step + 1) / (config.warmup_steps + 1)
    if config.schedule == "constant":
        return 1.0
    if total_steps is None:
        raise ConfigError("a cosine schedule needs an end: set stop.max_steps or stop.max_epochs")
    rest = max(total_steps - config.warmup_steps, 1)
    done = min((step - config.warmup_steps) / rest, 1.0)
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))


def build_optimizer(
    model: StagedLM, lr: float, weight_decay: float, lr_scales: Mapping[int, float] | None = None
) -> Optimizer:
    """AdamW in which layer i learns at `lr * lr_scales[i]`; embedding and heads learn at `lr`.

    It is the fused one on CPU and GPU alike. On a GPU the rate is a tensor, so that a captured
    step reads it afresh.
    """
    for name, value in (("learning rate", lr), ("weight decay", weight_decay)):
        if not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"the {name} is {value}: it must be a finite number >= 0")
    scales = dict(lr_scales or {})
    for layer, scale in scales.items():
        if not 1 <= layer <= model.num_layers:
            raise ConfigError(
                f"layer_lr_scales: layer {layer} is out of range: "
                f"the model has {model.num_layers} layers"
            )
        if not math.isfinite(scale) or scale < 0:
            raise ConfigError(f"layer_lr_scales: the scale of layer {layer} is {scale}")
    scale_of: dict[nn.Parameter, float] = {}
    for layer, block in enumerate(model.layers, start=1):
        scale_of |= dict.fromkeys(block.parameters(), scales.get(layer, 1.0))
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            groups.setdefault(scale_of.get(parameter, 1.0), []).append(parameter)
    device = model.embedding.weight.device
    return AdamW(
        [
            {"params": parameters, "lr": _rate(lr * scale, device), "scale": scale}
            for scale, parameters in groups.items()
        ],
        weight_decay=weight_decay,
        fused=True,
        capturable=device.type == "cuda",
    )


def _rate(lr: float, device: torch.device) -> float | torch.Tensor:
    return torch.tensor(lr, device=device) if device.type == "cuda" else lr


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        rate = lr * group["scale"]
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
