"""What decides whether a token may leave at an exit."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from ease.model import StageOutput


class ExitPolicy(Protocol):
    """A score for every token of a stage's output; larger means safer to leave.

    A token leaves where its score is at least the exit's threshold.
    """

    def score(self, output: StageOutput) -> Tensor:  # (batch, seq)
        ...
