"""Files that are either whole or not there: everything a run writes goes through here."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ease.errors import StorageError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the path when the system refuses to write it."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"could not write {path}: {reason}") from error


def write_file(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a neighbour of `path`, then put it in place in one step."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            fill(beside)
            _flush(beside)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_file(path, lambda beside: _write_text(beside, text))


def write_text(path: Path, text: str) -> None:
    write_file(path, lambda beside: _write_text(beside, text))


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` fill a new folder, then swap it in; the old one stays until the new is whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    with writing(path):
        shutil.rmtree(beside, ignore_errors=True)  # of a process that had our number and died
        try:
            beside.mkdir(parents=True)
            fill(beside)
            for file in beside.rglob("*"):
                if file.is_file():
                    _flush(file)
            if path.exists():
                path.replace(old)
            beside.replace(path)
        except StorageError as error:  # `fill` writes under a name that the user never sees
            raise StorageError(str(error).replace(str(beside), str(path))) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            if old.exists() and not path.exists():
                old.replace(path)  # the new one could not take its place
            shutil.rmtree(old, ignore_errors=True)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
