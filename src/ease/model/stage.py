"""A stage: a run of blocks that ends in an exit, and what it hands on."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ease.model.attention import RMSNorm, Rotary
from ease.model.block import Block
from ease.model.config import ModelConfig, StageShape
from ease.model.head import Head, TokenScores


class Stage(nn.Module):
    def __init__(self, config: ModelConfig, shape: StageShape, rotary: Rotary, head: Head) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config, shape.norm, rotary) for _ in range(shape.layers))
        self.norm: nn.Module = nn.Identity()
        if shape.final_norm:
            self.norm = RMSNorm(config.dim, config.norm_eps)
        self.head = head

    def forward(self, h: Tensor) -> Tensor:  # (batch, seq, dim)
        for block in self.blocks:
            h = block(h)
        return h


@dataclass(frozen=True)
class StageOutput:
    """What one stage made of a batch. Predictions are computed when they are asked for."""

    stage: Stage
    layer: int  # the layer, counted from 1, at which the stage ends
    entered: Tensor  # the state that entered the stage, (batch, seq, dim)
    left: Tensor  # the state that left it, (batch, seq, dim)
    previous: StageOutput | None

    @property
    def features(self) -> Tensor:
        """What the head reads, (batch, seq, dim)."""
        features: Tensor = self.stage.norm(self.left)
        return features

    def logits(self) -> Tensor:  # (batch, seq, vocab)
        logits: Tensor = self.stage.head(self.features)
        return logits

    def loss(self, targets: Tensor, token_weights: Tensor | None = None) -> Tensor:
        """The weighted sum of this exit's token losses; without weights, their mean."""
        return self.stage.head.loss(self.features, targets, token_weights)

    def scores(self, targets: Tensor) -> TokenScores:
        return self.stage.head.scores(self.features, targets)

    def confidence(self) -> Tensor:  # (batch, seq)
        return self.stage.head.confidence(self.features)
