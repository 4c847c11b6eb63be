"""The staged language model: an embedding and stages, each of which can stop."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ease.errors import ConfigError
from ease.model.attention import Rotary
from ease.model.block import Block
from ease.model.config import ModelConfig, StageShape
from ease.model.head import Head
from ease.model.stage import Stage, StageOutput


class StagedLM(nn.Module):
    """A decoder whose stages end in exits.

    >>> import torch
    >>> from ease import ModelConfig, StagedLM, StageShape
    >>> config = ModelConfig(vocab_size=100, dim=16, num_heads=2, num_kv_heads=1, head_dim=8,
    ...                      ffn_dim=32, stages=(StageShape(layers=2), StageShape(layers=2)))
    >>> outputs = StagedLM(config)(torch.zeros(1, 5, dtype=torch.long))
    >>> [(output.layer, tuple(output.logits().shape)) for output in outputs]
    [(2, (1, 5, 100)), (4, (1, 5, 100))]
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.dropout = nn.Dropout(config.dropout)
        rotary = Rotary(config.head_dim, config.rope_theta)
        self.stages = nn.ModuleList()
        head: Head | None = None
        for shape in config.stages:
            head = self._head(shape, head)
            self.stages.append(Stage(config, shape, rotary, head))
        self._initialise()

    def _head(self, shape: StageShape, previous: Head | None) -> Head:
        if shape.head == "tied":
            return Head(self.embedding.weight)
        if shape.head == "shared" and previous is not None:
            return previous
        return Head(nn.Parameter(torch.empty(self.config.vocab_size, self.config.dim)))

    @torch.no_grad()
    def _initialise(self) -> None:
        """Normal weights of deviation dim**-0.5; pre-norm branches shrink as they add up.

        Heads come last, so that one seed gives the same layers whatever the exits.
        """
        deviation = self.config.dim**-0.5
        for block in self.layers:
            shrink = 1.0 if block.norm == "post" else (2 * self.config.num_layers) ** -0.5
            for linear in block.modules():
                if not isinstance(linear, nn.Linear):
                    continue
                adds = linear in (block.attention.o_proj, block.feed_forward.down_proj)
                nn.init.trunc_normal_(linear.weight, std=deviation * (shrink if adds else 1.0))
                if linear.bias is not None:
                    nn.init.zeros_(linear.bias)
        nn.init.trunc_normal_(self.embedding.weight, std=0.02)
        for shape, stage in zip(self.config.stages, self._stages(), strict=True):
            if shape.head == "own":
                nn.init.trunc_normal_(stage.head.weight, std=deviation)

    def _stages(self) -> Iterator[Stage]:
        for stage in self.stages:
            assert isinstance(stage, Stage)
            yield stage

    @property
    def layers(self) -> list[Block]:
        """All blocks in order; `layers[i]` is layer i + 1."""
        return [block for stage in self._stages() for block in stage.blocks]  # type: ignore[misc]

    @property
    def exits(self) -> tuple[int, ...]:
        return self.config.exits

    @property
    def num_layers(self) -> int:
        return self.config.num_layers

    def num_parameters(self) -> int:
        """Every weight once, however many heads share it."""
        return sum(parameter.numel() for parameter in self.parameters())

    def start(self, ids: Tensor) -> Tensor:
        """Token ids (batch, seq) -> the state that enters the first stage (batch, seq, dim)."""
        state: Tensor = self.dropout(self.embedding(ids))
        return state

    def forward(self, ids: Tensor, until: int | None = None) -> list[StageOutput]:
        """One output a stage, up to the stage that ends at layer `until` (all by default)."""
        if until is not None:
            self.require_exit(until)
        state = self.start(ids)
        outputs: list[StageOutput] = []
        for stage, layer in zip(self._stages(), self.exits, strict=True):
            left = stage(state)
            previous = outputs[-1] if outputs else None
            outputs.append(StageOutput(stage, layer, state, left, previous))
            if layer == until:
                break
            state = left
        return outputs

    def require_exit(self, layer: int) -> None:
        if not 1 <= layer <= self.num_layers:
            raise ConfigError(f"layer {layer} is out of range: the model has {self.num_layers}")
        if layer not in self.exits:
            exits = ", ".join(map(str, self.exits))
            raise ConfigError(f"layer {layer} has no exit: this model's exits are at {exits}")
