"""A source of text -> documents of train, validation and test."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ease.data.config import HUB, DataConfig
from ease.data.files import READABLE, file_format, read_documents
from ease.data.hub import load_hub_splits, read_hub_split
from ease.data.library import read_library
from ease.errors import DataError

Say = Callable[[str], None]
ALL = "all"

_PARTS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "development": "validation",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class Source:
    """Documents by part: some of train, validation and test, or "all" and nothing else."""

    name: str
    parts: dict[str, list[str]]
    notes: list[str]


def read_source(config: DataConfig, progress: Say) -> Source:
    """Read everything that `data.source` names."""
    progress(f"reading {config.source}")
    if config.source == "stdlib":
        return _read_stdlib()
    if config.source.startswith(HUB):
        return _read_hub(config, config.source.removeprefix(HUB))
    path = Path(config.source).expanduser()
    if path.is_dir():
        return _read_folder(path, config)
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file or folder; data.source is stdlib, a file, a folder "
            "or hf:owner/name"
        )
    return Source(path.name, {ALL: read_documents(path, config.fields)}, [f"one file: {path}"])


def part_of(name: str) -> str | None:
    """The part that a file's name tells by a whole word, or else the nearest folder's name."""
    for level in reversed(PurePosixPath(name).parts):
        words = re.findall(r"[^\W\d_]+", level.lower())
        told = {_PARTS[word] for word in words if word in _PARTS}
        if told:
            return told.pop() if len(told) == 1 else None
    return None


def tell_apart(names: Iterable[str], where: str) -> tuple[dict[str, list[str]], list[str]]:
    """Names by part (all of them under "all" where none tells), and notes on what was done."""
    parts: dict[str, list[str]] = {}
    silent: list[str] = []
    for name in names:
        part = part_of(name)
        (silent if part is None else parts.setdefault(part, [])).append(name)
    if not parts:
        return {ALL: silent}, [f"no name tells train, validation or test: all of {_list(silent)}"]
    notes = [f"{part}: {_list(parts[part])}" for part in ("train", "validation", "test")
             if part in parts]  # fmt: skip
    if "train" not in parts:
        raise DataError(
            f"{where}: nothing to train on: no name has the word 'train' ({'; '.join(notes)})"
        )
    if silent:
        notes.append(f"left out, since no part is told by the name: {_list(silent)}")
    return parts, notes


def _read_stdlib() -> Source:
    parts = read_library()
    counts = ", ".join(f"{part} {len(texts):,}" for part, texts in parts.items())
    notes = [
        f"the standard library of Python {platform.python_version()}; another version has "
        "other text",
        f"files by a hash of their path: {counts}",
    ]
    return Source("stdlib", parts, notes)


def _read_folder(folder: Path, config: DataConfig) -> Source:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    names = sorted(
        path.as_posix()
        for path in found
        if file_format(path) and not any(level.startswith(".") for level in path.parts)
    )
    if not names:
        raise DataError(f"{folder}: no file in it that ease can read: it reads {READABLE}")
    parts, notes = tell_apart(names, str(folder))
    read = {
        part: [text for file in files for text in read_documents(folder / file, config.fields)]
        for part, files in parts.items()
    }
    return Source(folder.resolve().name, read, notes)


def _read_hub(config: DataConfig, name: str) -> Source:
    splits = load_hub_splits(config, name)
    parts, notes = tell_apart(splits, f"{HUB}{name}")
    if config.max_documents is not None:
        notes.append(f"at most {config.max_documents:,} rows of each split")
    read = {
        part: [
            text for split in names for text in read_hub_split(splits[split], config, name, split)
        ]
        for part, names in parts.items()
    }
    return Source(f"{HUB}{name}", read, notes)


def _list(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
