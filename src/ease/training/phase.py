"""A phase: what trains, with which losses, until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import Field

from ease.settings import Settings
from ease.training.losses import Objective
from ease.training.optim import OptimConfig


class StopConfig(Settings):
    """The `stop` section of a recipe: when a phase is evaluated, and when it ends."""

    max_epochs: int = Field(default=50, ge=1, description="Passes over the training data at most.")
    max_steps: int | None = Field(default=None, ge=1, description="Updates at most.")
    patience: int | None = Field(
        default=1, ge=1, description="Evaluations without improvement that end it; null: never."
    )
    evaluate_every: int | None = Field(
        default=None, ge=1, description="Steps between evaluations; null: once an epoch."
    )

    def total_steps(self, steps_per_epoch: int) -> int:
        steps = self.max_epochs * steps_per_epoch
        return steps if self.max_steps is None else min(steps, self.max_steps)


@dataclass(frozen=True)
class Phase:
    """What the Trainer executes. A strategy is a list of these."""

    name: str
    objective: Objective
    optim: OptimConfig
    stop: StopConfig
    lr_scales: Mapping[int, float] = field(default_factory=dict)
