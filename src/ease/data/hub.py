"""Rows of a Hugging Face dataset -> documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ease.data.config import DataConfig
from ease.data.files import check_fields, optional_module, row_text, with_text
from ease.errors import DataError, EaseError

_ROWS_AT_ONCE = 1000


def load_hub_splits(config: DataConfig, name: str) -> dict[str, Any]:
    """The dataset's own splits by their names; nothing but streamed heads is read yet."""
    datasets = optional_module("datasets", "reading a Hugging Face dataset")
    try:
        loaded = datasets.load_dataset(name, config.subset, streaming=config.streaming)
    # Anything may go wrong on the way: network, rights, a name, a script, a broken file.
    except Exception as error:
        raise _failure(name, error) from error
    return dict(loaded)


def read_hub_split(split: Any, config: DataConfig, name: str, part: str) -> list[str]:
    """The documents of one split, at most `max_documents` rows of it."""
    where = f"hf:{name}, split {part!r}"
    rows = islice(_rows(split, config.fields, where), config.max_documents)
    try:
        texts = [
            row_text(row, config.fields, f"{where}, row {number}")
            for number, row in enumerate(rows, start=1)
        ]
    except EaseError:
        raise
    except Exception as error:  # a stream meets the network here
        raise _failure(name, error) from error
    return with_text(texts, where)


def _rows(split: Any, fields: Sequence[str], where: str) -> Iterator[dict[str, Any]]:
    if split.column_names is not None:  # a stream may not know its columns yet
        check_fields(split.column_names, fields, where)
        split = split.select_columns(list(fields))
    for batch in split.iter(batch_size=_ROWS_AT_ONCE):
        for values in zip(*batch.values(), strict=True):
            yield dict(zip(batch, values, strict=True))


def _failure(name: str, error: Exception) -> DataError:
    cause = " ".join(str(error).split()) or type(error).__name__
    return DataError(
        f"hf:{name}: the dataset could not be loaded ({cause}); check its name, data.subset "
        "and the network"
    )
