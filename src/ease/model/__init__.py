"""Batch -> one `StageOutput` a stage."""

from ease.model.checkpoint import load_model, save_model
from ease.model.classic import (
    ClassicTransformer,
    DeepSupervisionTransformer,
    StandardTransformer,
    staged,
)
from ease.model.config import ModelConfig, StageShape
from ease.model.stage import StageOutput
from ease.model.staged_lm import StagedLM

__all__ = [
    "ClassicTransformer",
    "DeepSupervisionTransformer",
    "ModelConfig",
    "StageOutput",
    "StageShape",
    "StagedLM",
    "StandardTransformer",
    "load_model",
    "save_model",
    "staged",
]
