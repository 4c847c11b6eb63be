"""Strategies describe Phases; the Trainer executes them. A new strategy is a new file here.

Each has a `Settings` class with a literal `name` and a method `phases`; it joins the table below.
"""

from ease.training.strategies.deep_supervision import DeepSupervisionConfig
from ease.training.strategies.discriminative import DiscriminativeConfig
from ease.training.strategies.standard import StandardConfig

StrategyConfig = StandardConfig | DeepSupervisionConfig | DiscriminativeConfig

__all__ = ["DeepSupervisionConfig", "DiscriminativeConfig", "StandardConfig", "StrategyConfig"]
