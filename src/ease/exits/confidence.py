"""Softmax confidence: the largest probability of the exit's own prediction."""

from __future__ import annotations

from torch import Tensor

from ease.model import StageOutput


class SoftmaxConfidence:
    """The specification's rule. It costs a head at every exit that asks it."""

    def score(self, output: StageOutput) -> Tensor:  # (batch, seq)
        return output.confidence()
