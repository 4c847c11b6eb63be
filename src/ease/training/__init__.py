"""Batch + Strategy -> trained model."""

from ease.training.callbacks import Callback, Evaluation, MetricsFile
from ease.training.framework import (
    StageConfig,
    Trainer,
    TrainingConfig,
    create_deep_supervision_config,
    create_standard_config,
)
from ease.training.losses import LayerLosses, Objective
from ease.training.optim import OptimConfig, build_optimizer
from ease.training.phase import Phase, StopConfig
from ease.training.trainer import PhaseReport, PhaseTrainer

__all__ = [
    "Callback",
    "Evaluation",
    "LayerLosses",
    "MetricsFile",
    "Objective",
    "OptimConfig",
    "Phase",
    "PhaseReport",
    "PhaseTrainer",
    "StageConfig",
    "StopConfig",
    "Trainer",
    "TrainingConfig",
    "build_optimizer",
    "create_deep_supervision_config",
    "create_standard_config",
]
