"""`ease evaluate`: every exit of a trained model, on a split or on any text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor

from ease.cli.tables import print_splits
from ease.data import Batches
from ease.recipes import choose_device, evaluate_folder
from ease.storage import write_json


def evaluate(
    source: Annotated[Path, typer.Argument(metavar="RUN_OR_MODEL", help="A run or model folder.")],
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A text, jsonl or parquet file.")
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="A split of the run's own data.")
    ] = "test",
    seq_len: Annotated[
        int | None, typer.Option(min=1, help="Tokens a block (default: the run's).")
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME", help="A field of --data's rows; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the figures here too.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Evaluate every whole block of a text: nothing is dropped at its end, nothing added."""
    console = Console(stderr=True)

    def watch(batches: Batches) -> Iterable[tuple[Tensor, Tensor]]:
        return track(
            batches, "evaluating", console=console, transient=True, disable=not console.is_terminal
        )

    result = evaluate_folder(
        source, data, split, seq_len, fields, device=choose_device(device), watch=watch
    )
    print_splits(result["splits"], result["model"]["num_layers"])
    print(f"blocks of {result['seq_len']} tokens, every whole one")
    if "note" in result:
        print(result["note"])
    if out is not None:
        write_json(out, result)
