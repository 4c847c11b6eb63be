"""Recipes: what to run, checked, and run from text to result."""

from ease.recipes.evaluate import evaluate_folder
from ease.recipes.run import Run, choose_device, train_recipe
from ease.recipes.run_config import (
    ModelSection,
    RunConfig,
    known_keys,
    load_config,
    load_recipe,
    recipe_names,
)
from ease.recipes.run_folder import RunFolder, choose_folder

__all__ = [
    "ModelSection",
    "Run",
    "RunConfig",
    "RunFolder",
    "choose_device",
    "choose_folder",
    "evaluate_folder",
    "known_keys",
    "load_config",
    "load_recipe",
    "recipe_names",
    "train_recipe",
]
