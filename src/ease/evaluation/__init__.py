"""What a model is worth on held-out text."""

from ease.evaluation.perplexity import (
    Figures,
    RoutedFigures,
    evaluate_exits,
    evaluate_routed,
    perplexity,
)

__all__ = ["Figures", "RoutedFigures", "evaluate_exits", "evaluate_routed", "perplexity"]
