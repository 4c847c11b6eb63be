"""What a phase minimises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from ease.errors import ConfigError
from ease.model import StagedLM


class Objective(Protocol):
    """A model and a batch -> the scalar to minimise."""

    def __call__(self, model: StagedLM, x: Tensor, y: Tensor) -> Tensor: ...


class LayerLosses:
    """The weighted sum of the exits' mean token losses.

    Only exits that carry weight are read, and layers above the last of them do not run: with all
    weight on the last layer, this is plain training at plain cost.
    """

    def __init__(self, weights: Mapping[int, float]) -> None:
        for layer, weight in weights.items():
            if not (isinstance(layer, int) and layer >= 1):
                raise ConfigError(f"a loss weight is given to layer {layer!r}: layers count from 1")
            if not (isinstance(weight, (int, float)) and 0 <= weight < math.inf):
                raise ConfigError(
                    f"the loss weight of layer {layer} is {weight!r}: it must be a number >= 0"
                )
        self.weights = {layer: weights[layer] for layer in sorted(weights) if weights[layer] > 0}
        if not self.weights:
            raise ConfigError("no layer carries a loss: give at least one a weight above 0")

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(self.weights)

    def __call__(self, model: StagedLM, x: Tensor, y: Tensor) -> Tensor:  # both (batch, seq)
        for layer in self.weights:
            model.require_exit(layer)
        outputs = model(x, until=self.layers[-1])
        losses = [
            self.weights[output.layer] * output.loss(y)
            for output in outputs
            if output.layer in self.weights
        ]
        total: Tensor = sum(losses[1:], start=losses[0])
        return total
