"""What a model is worth on held-out text."""

from ease.evaluation.perplexity import (
    Figures,
    RoutedFigures,
    evaluate_exits,
    evaluate_routed,
)

__all__ = ["Figures", "RoutedFigures", "evaluate_exits", "evaluate_routed"]
