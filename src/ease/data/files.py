"""One file on disk -> its documents."""

from __future__ import annotations

import gzip
import importlib
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ease.errors import DataError, MissingExtraError

FORMATS = (".txt", ".jsonl", ".parquet")
COMPRESSIONS = (".gz", ".xz")
READABLE = f"{', '.join(FORMATS)}, each also with {' or '.join(COMPRESSIONS)} after it"
_BOM = b"\xef\xbb\xbf"


def file_format(path: Path) -> str | None:
    """The format that a file's name tells, or None where ease cannot read it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in FORMATS else None


def read_documents(path: Path, fields: Sequence[str]) -> list[str]:
    """Every document of a file: a .txt is one; each jsonl or parquet row that has text is one."""
    kind = file_format(path)
    if kind is None:
        raise DataError(f"{path}: unknown kind of file: ease reads {READABLE}")
    data = _read_bytes(path)
    if kind == ".txt":
        documents = [_decode(data, path)]
    elif kind == ".jsonl":
        documents = list(_json_rows(_decode(data, path), fields, path))
    else:
        documents = list(_parquet_rows(data, fields, path))
    return with_text(documents, str(path))


def with_text(documents: Iterable[str], where: str) -> list[str]:
    """The documents that hold more than white space; an error where there is none.

    Some datasets keep the empty lines of the text they were cut from as rows. Joined by the
    end-of-text token these would only teach a model that such a token follows itself.
    """
    kept = [document for document in documents if document and not document.isspace()]
    if not kept:
        raise DataError(f"{where} is empty: there is no text in it")
    return kept


def row_text(row: dict[str, Any], fields: Sequence[str], where: str) -> str:
    """The named fields of one row, joined by newlines."""
    check_fields(row, fields, where)
    for field in fields:
        if not isinstance(row[field], str):
            kind = type(row[field]).__name__
            raise DataError(f"{where}: field {field!r} is of type {kind}, not text")
    text = "\n".join(row[field] for field in fields)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: half a surrogate pair, which is not text: {error}") from error
    return text


def check_fields(present: Iterable[str], fields: Sequence[str], where: str) -> None:
    """Raise where a field that was asked for is not there."""
    names = list(present)
    for field in fields:
        if field not in names:
            there = ", ".join(map(repr, names)) or "none"
            raise DataError(
                f"{where}: no field {field!r}; set data.fields from those there: {there}"
            )


def optional_module(module: str, what: str) -> Any:
    """Import a module of the `data` extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(what, "data") from error


def _read_bytes(path: Path) -> bytes:
    suffix = path.suffix.lower()
    try:
        data = path.read_bytes()
        if suffix == ".gz":
            return gzip.decompress(data)
        return lzma.decompress(data) if suffix == ".xz" else data
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: not a whole {suffix} file ({error}); copy or download it again"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _decode(data: bytes, path: Path) -> str:
    """UTF-8 text; bytes are decoded here so that no newline is translated."""
    skipped = len(_BOM) if data.startswith(_BOM) else 0
    try:
        return data[skipped:].decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start + skipped
        raise DataError(f"{path}: not UTF-8 at byte {offset}; convert it to UTF-8") from error


def _json_rows(text: str, fields: Sequence[str], path: Path) -> Iterator[str]:
    # Not str.splitlines: JSON strings may hold the other line separators of Unicode.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not valid JSON ({error})") from error
        if not isinstance(row, dict):
            raise DataError(f"{where}: a {type(row).__name__}, not a JSON object with fields")
        yield row_text(row, fields, where)


def _parquet_rows(data: bytes, fields: Sequence[str], path: Path) -> Iterator[str]:
    arrow = optional_module("pyarrow", "reading parquet")
    parquet = optional_module("pyarrow.parquet", "reading parquet")
    number = 0
    try:
        file = parquet.ParquetFile(arrow.BufferReader(data))
        check_fields(file.schema_arrow.names, fields, f"{path}, row 1")
        for batch in file.iter_batches(columns=list(fields)):
            for row in batch.to_pylist():
                number += 1
                yield row_text(row, fields, f"{path}, row {number}")
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a whole parquet file ({error})") from error
