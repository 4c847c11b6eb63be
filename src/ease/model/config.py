"""The shape of a staged language model: everything needed to build one, nothing about training."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ease.settings import Settings

Norm = Literal["pre", "post"]
HeadKind = Literal["own", "shared", "tied"]


class StageShape(Settings):
    """A run of blocks that ends in an exit.

    `head` is the stage's `own`, `shared` with the stage before it, or `tied` to the embedding.
    """

    layers: int = Field(ge=1)
    norm: Norm = "pre"
    final_norm: bool = True
    head: HeadKind = "own"


class ModelConfig(Settings):
    """The shape of a `StagedLM`; `config.json` of a model folder holds exactly this."""

    model_type: Literal["ease"] = "ease"
    vocab_size: int = Field(ge=1)
    dim: int = Field(ge=2)
    num_heads: int = Field(ge=1)
    num_kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=2)
    ffn_dim: int = Field(ge=1)
    stages: tuple[StageShape, ...] = Field(min_length=1)
    norm_eps: float = Field(default=1e-6, gt=0)
    rope_theta: float = Field(default=10_000.0, gt=0)
    qkv_bias: bool = False
    qk_norm: bool = False
    dropout: float = Field(default=0.0, ge=0, lt=1)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads ({self.num_heads}) must be a multiple of "
                f"num_kv_heads ({self.num_kv_heads})"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim ({self.head_dim}) must be even for rotary positions")
        if self.stages[0].head == "shared":
            raise ValueError("the first stage has no earlier head to share")
        return self

    @property
    def num_layers(self) -> int:
        return sum(stage.layers for stage in self.stages)

    @property
    def exits(self) -> tuple[int, ...]:
        """The layer, counted from 1, at which each stage ends."""
        ends, depth = [], 0
        for stage in self.stages:
            depth += stage.layers
            ends.append(depth)
        return tuple(ends)
