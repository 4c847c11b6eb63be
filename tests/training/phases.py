"""Phases small enough to run many of, and what watches or stops them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ease import (
    Batches,
    Blocks,
    Callback,
    LayerLosses,
    OptimConfig,
    Phase,
    PhaseTrainer,
    StagedLM,
    StopConfig,
    evaluate_exits,
)
from ease.training import Evaluation, Objective
from model.tiny import VOCAB, random_batches, tiny_model

Pair = tuple[Tensor, Tensor]
HELD_OUT = random_batches(2, seed=9)


def blocks(split: str = "train", count: int = 16) -> Blocks:
    tokens = np.random.default_rng(0).integers(0, VOCAB, count * 4 + 1).astype(np.int32)
    return Blocks(tokens, 4, split, "honest")


def shuffled(batch_size: int = 3) -> Batches:
    return Batches(blocks(), batch_size, shuffle=True, seed=5)


def phase_trainer(
    model: StagedLM | None = None,
    train: Iterable[Pair] | None = None,
    *,
    stop: StopConfig | None = None,
    optim: OptimConfig | None = None,
    objective: Objective | None = None,
    callbacks: Sequence[Callback] = (),
    optimizer: Optimizer | None = None,
) -> PhaseTrainer:
    """A phase of six shuffled batches an epoch, judged at both exits on two batches."""
    learner = model or tiny_model()
    phase = Phase(
        "small",
        objective or LayerLosses({1: 0.3, 2: 0.7}),
        optim or OptimConfig(lr=0.01),
        stop or StopConfig(max_epochs=3, patience=None),
    )
    return PhaseTrainer(
        learner,
        phase,
        shuffled() if train is None else train,
        judge=lambda: evaluate_exits(learner, HELD_OUT),
        callbacks=callbacks,
        optimizer=optimizer,
    )


def weights_of(model: StagedLM) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same_bits(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint goes through: the safe loader takes no arbitrary objects."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


class Watcher(Callback):
    """Hands every step and evaluation to a function each."""

    def __init__(
        self,
        step: Callable[[int, float], None] | None = None,
        evaluation: Callable[[Evaluation], None] | None = None,
    ) -> None:
        self.step = step
        self.evaluation = evaluation

    def on_step(self, step: int, loss: float) -> None:
        if self.step:
            self.step(step, loss)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        if self.evaluation:
            self.evaluation(evaluation)
