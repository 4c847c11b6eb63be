"""StageOutput -> score: how safe it is to leave here."""

from ease.exits.confidence import SoftmaxConfidence
from ease.exits.policy import ExitPolicy

__all__ = ["ExitPolicy", "SoftmaxConfidence"]
