"""Plain training: all weight on the last layer."""

from __future__ import annotations

from typing import Literal

from ease.model import StagedLM
from ease.settings import Settings
from ease.training.losses import LayerLosses
from ease.training.optim import OptimConfig
from ease.training.phase import Phase, StopConfig


class StandardConfig(Settings):
    name: Literal["standard"] = "standard"

    def phases(self, model: StagedLM, optim: OptimConfig, stop: StopConfig) -> list[Phase]:
        return [Phase("standard", LayerLosses({model.num_layers: 1.0}), optim, stop)]
