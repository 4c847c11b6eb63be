"""The verbs, and the one place where errors become a line and an exit code."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated

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


def _reported(verb: Callable[..., None]) -> Callable[..., None]:
    """A user's mistake is one line and exit code 2; a failed run is one line and 1."""

    @functools.wraps(verb)
    def run(*arguments: object, **options: object) -> None:
        try:
            verb(*arguments, **options)
        except EaseError as error:
            if DEBUG in sys.argv:
                raise
            print(f"ease: {error}", file=sys.stderr)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            print("ease: interrupted", file=sys.stderr)
            raise typer.Exit(130) from None

    return run


DEBUG = "--debug"
app = typer.Typer(
    name="ease",
    help="Train, grow and serve early-exit language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, verb in VERBS.items():
    app.command(name)(_reported(verb))


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
    debug: Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error.")] = False,
) -> None:
    """Train, grow and serve early-exit language models."""


def main() -> None:
    """The console script. `--debug` may stand anywhere."""
    arguments = sys.argv[1:]
    first = [DEBUG] if DEBUG in arguments else []
    app([*first, *(argument for argument in arguments if argument != DEBUG)])
