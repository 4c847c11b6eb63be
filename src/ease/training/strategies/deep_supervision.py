"""Deep supervision (Lee et al. 2015): every exit carries a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from ease.errors import ConfigError
from ease.model import StagedLM
from ease.settings import Settings
from ease.training.losses import LayerLosses
from ease.training.optim import OptimConfig
from ease.training.phase import Phase, StopConfig


class DeepSupervisionConfig(Settings):
    name: Literal["deep_supervision"] = "deep_supervision"
    weights: Literal["equal", "depth"] | tuple[float, ...] = Field(
        default="equal",
        description="Of the exits' losses: equal, growing with depth (w_i ~ i), or one for each.",
    )

    def phases(self, model: StagedLM, optim: OptimConfig, stop: StopConfig) -> list[Phase]:
        objective = LayerLosses(self.exit_weights(model.exits))
        return [Phase("deep-supervision", objective, optim, stop)]

    def exit_weights(self, exits: tuple[int, ...]) -> Mapping[int, float]:
        """The weight of each exit's loss; `equal` and `depth` add up to 1."""
        if self.weights == "equal":
            return dict.fromkeys(exits, 1.0 / len(exits))
        if self.weights == "depth":
            return {layer: layer / sum(exits) for layer in exits}
        if len(self.weights) != len(exits):
            raise ConfigError(
                f"strategy.weights has {len(self.weights)} numbers, "
                f"but the model has {len(exits)} exits: {exits}"
            )
        return dict(zip(exits, self.weights, strict=True))
