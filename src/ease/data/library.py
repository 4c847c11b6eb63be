"""The corpus that every machine has: the source text of Python's standard library."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ease.errors import DataError

LARGEST = 8_000_000  # bytes

_LEFT_OUT = {
    "test",
    "tests",
    "idle_test",
    "site-packages",
    "dist-packages",
    "__pycache__",
    "ensurepip",
}


def read_library(root: Path | None = None, largest: int = LARGEST) -> dict[str, list[str]]:
    """The library's files dealt to train, validation and test by a hash of their path.

    Files are taken in an order that the same hash gives until `largest` bytes are reached, so
    that the choice is spread over the library and the same on every machine with this Python.
    """
    root = Path(sysconfig.get_path("stdlib")) if root is None else root
    parts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    size = 0
    for path, digest in sorted(_sources(root), key=lambda found: found[1]):
        try:
            data = path.read_bytes()
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if not text.strip():
            continue
        size += len(data)
        if size > largest:
            break
        parts[_part(digest)].append(text)
    if not all(parts.values()):
        raise DataError(
            f"{root}: the source text of the standard library is not there; set data.source to "
            "a file, a folder or hf:owner/name"
        )
    return parts


def _sources(root: Path) -> Iterator[tuple[Path, bytes]]:
    for folder, folders, files in os.walk(root):
        # What the build of this one Python wrote (config-*, _sysconfigdata*) is not the library.
        folders[:] = [f for f in folders if f not in _LEFT_OUT and not f.startswith("config-")]
        for file in files:
            if file.endswith(".py") and not file.startswith("_sysconfigdata"):
                path = Path(folder, file)
                relative = path.relative_to(root).as_posix()
                yield path, hashlib.sha256(relative.encode("utf-8", "surrogateescape")).digest()


def _part(digest: bytes) -> str:
    # A remainder does not follow the order of the hashes: a cap on that favours no part.
    place = int.from_bytes(digest, "big") % 20
    return "test" if place == 19 else "validation" if place == 18 else "train"
