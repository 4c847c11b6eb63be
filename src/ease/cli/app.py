"""The verbs, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated

import click
import typer

from ease.cli.evaluate import evaluate
from ease.cli.recipes import recipes
from ease.cli.train import train
from ease.errors import EaseError

VERBS: dict[str, Callable[..., None]] = {
    "train": train,
    "evaluate": evaluate,
    "recipes": recipes,
}

app = typer.Typer(
    name="ease",
    help="Train, grow and serve early-exit language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb, function in VERBS.items():
    app.command(verb)(function)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ease {metadata.version('ease-lm')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train, grow and serve early-exit language models."""


def main() -> None:
    """The console script. A user's mistake is one line and exit code 2; a failed run is 1."""
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(arguments, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except EaseError as error:
        if debug:
            raise
        print(f"ease: {error}", file=sys.stderr)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("ease: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # `ease recipes | head` closed our output: nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
