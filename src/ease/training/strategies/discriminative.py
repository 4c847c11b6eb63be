"""Discriminative fine-tuning (Howard & Ruder 2018): lower layers learn more slowly."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ease.model import StagedLM
from ease.settings import Settings
from ease.training.losses import LayerLosses
from ease.training.optim import OptimConfig
from ease.training.phase import Phase, StopConfig


class DiscriminativeConfig(Settings):
    name: Literal["discriminative"] = "discriminative"
    decay: float = Field(
        default=2.6, ge=1, description="Each layer learns this many times slower than the next."
    )

    def phases(self, model: StagedLM, optim: OptimConfig, stop: StopConfig) -> list[Phase]:
        last = model.num_layers
        scales = {layer: self.decay ** (layer - last) for layer in range(1, last + 1)}
        objective = LayerLosses({last: 1.0})
        return [Phase("discriminative", objective, optim, stop, lr_scales=scales)]
