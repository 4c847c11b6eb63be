"""Plain tables on standard output, and what a user reads of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]], right: bool = False) -> None:
    """A table that reads the same on a terminal and in a file; numbers stand to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = [row[0].ljust(widths[0])]
        for cell, width in zip(row[1:], widths[1:], strict=True):
            cells.append(cell.rjust(width) if right else cell.ljust(width))
        print("  ".join(cells).rstrip())


def print_splits(splits: Mapping[str, Mapping[str, Any]], num_layers: int) -> None:
    """Every exit of every split: as if all tokens left there."""
    rows = [
        (
            split,
            f"{layer} of {num_layers}",
            _number(figures["ppl"], ",.2f"),
            _number(figures["acc"], ".2%"),
            f"{figures['tokens']:,}",
        )
        for split, result in splits.items()
        for layer, figures in result["exits"].items()
    ]
    print_rows(("split", "exit after layer", "perplexity", "accuracy", "tokens"), rows, right=True)


def headline(result: Mapping[str, Any]) -> str:
    """One sentence: what the run reached on test, and what leaving early would cost."""
    test, layers = result["splits"]["test"], result["model"]["num_layers"]
    where = "Held-out test" if result["held_out"] else f"Test ({result['note']})"
    sentence = f"{where} perplexity {_number(test['ppl'], ',.2f')} after all {layers} layers"
    early = [layer for layer in test["exits"] if int(layer) < layers]
    for layer in early:
        ppl = _number(test["exits"][layer]["ppl"], ",.2f")
        sentence += f"; {ppl} if every token left after layer {layer} ({int(layer) / layers:.0%})"
    return sentence + "."


def _number(value: float | None, form: str) -> str:
    return "not finite" if value is None else format(value, form)
