"""`ease train`: a recipe, run to its end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ease.cli.display import interruptible, open_display
from ease.cli.tables import headline, print_splits
from ease.errors import InterruptedRunError
from ease.recipes import Run, choose_folder, load_recipe, recipe_names


def train(
    recipe: Annotated[
        str, typer.Argument(help=f"One of {', '.join(recipe_names())}, or a .yaml file.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key, as in optim.lr=1e-4."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder (default: runs/RECIPE).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the run was stopped; else start it.")
    ] = False,
) -> None:
    """Train a recipe, test it, and keep everything in a run folder."""
    config = load_recipe(recipe, settings or [])
    folder = choose_folder(config, out, resume)
    with open_display() as display, interruptible() as stop:
        try:
            result = Run(config, folder, display.say, [display, stop]).train()
        except (InterruptedRunError, KeyboardInterrupt):
            words = ["ease", "train", recipe, "--resume", "--out", str(folder.path)]
            words += [word for setting in settings or [] for word in ("--set", setting)]
            raise InterruptedRunError(f"interrupted; to go on: {shlex.join(words)}") from None
    print_splits(result["splits"], result["model"]["num_layers"])
    print()
    print(headline(result))
    print(f"Everything is in {folder.path}")
