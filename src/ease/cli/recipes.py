"""`ease recipes`: what there is to train."""

from __future__ import annotations

from ease.cli.tables import print_rows
from ease.recipes import load_recipe, recipe_names


def recipes() -> None:
    """List the recipes that are shipped."""
    rows = [(name, load_recipe(name).description) for name in recipe_names()]
    print_rows(("recipe", "what it trains"), rows)
