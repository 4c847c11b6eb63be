"""Models small enough to test everything about them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ease import ModelConfig, StagedLM, StageShape

VOCAB = 23


def tiny_config(*stages: StageShape, **settings: Any) -> ModelConfig:
    """Two stages of one layer unless others are given; `settings` replace the rest."""
    sizes: dict[str, Any] = {
        "vocab_size": VOCAB,
        "dim": 8,
        "num_heads": 2,
        "num_kv_heads": 1,
        "head_dim": 4,
        "ffn_dim": 12,
    }
    shapes = stages or (StageShape(layers=1), StageShape(layers=1))
    return ModelConfig(**{**sizes, **settings}, stages=shapes)


def tiny_model(*stages: StageShape, seed: int = 0, **settings: Any) -> StagedLM:
    torch.manual_seed(seed)
    return StagedLM(tiny_config(*stages, **settings))


def random_ids(batch: int, seq: int, vocab: int = VOCAB, seed: int = 0) -> Tensor:
    return torch.randint(vocab, (batch, seq), generator=torch.Generator().manual_seed(seed))


def random_batches(count: int, batch: int = 3, seq: int = 5, seed: int = 0) -> list[Any]:
    """Pairs (x, y) of random tokens."""
    pairs = range(seed * 1000, seed * 1000 + 2 * count, 2)
    return [(random_ids(batch, seq, seed=s), random_ids(batch, seq, seed=s + 1)) for s in pairs]


@torch.no_grad()
def randomise(model: StagedLM, seed: int) -> StagedLM:
    """Give every weight, norms and biases included, a value that matters."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator) * 0.4
        parameter.copy_(1 + noise if "norm" in name else noise)
    return model
