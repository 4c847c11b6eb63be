"""The tokenizer that a configuration asks for, fitted where it has to be."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers

from ease.data.config import HUB, DataConfig
from ease.data.sources import Say
from ease.data.tokenizers import (
    BPETokenizer,
    ByteTokenizer,
    HFTokenizer,
    Tokenizer,
    WordTokenizer,
)
from ease.errors import StorageError
from ease.storage import write_text


def build_tokenizer(
    config: DataConfig,
    train_documents: Sequence[str],
    validation_documents: Sequence[str],
    cache_dir: Path | None = None,
    progress: Say = lambda _: None,
) -> Tokenizer:
    """Words come from train and validation, a BPE from train alone; others need no text."""
    if config.tokenizer == WordTokenizer.kind:
        return WordTokenizer.fit([*train_documents, *validation_documents])
    if config.tokenizer == ByteTokenizer.kind:
        return ByteTokenizer()
    if config.tokenizer.startswith(HUB):
        progress(f"loading the tokenizer {config.tokenizer}")
        return HFTokenizer(config.tokenizer.removeprefix(HUB))
    folder = default_cache_dir() if cache_dir is None else cache_dir
    return _cached_bpe(train_documents, config.vocab_size, folder, progress)


def default_cache_dir() -> Path:
    """The user's cache folder, where the XDG base directories say it is."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rule: a relative path is not valid and counts as none.
    return (Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()) / "ease"


def _cached_bpe(
    documents: Sequence[str], vocab_size: int, cache_dir: Path, progress: Say
) -> BPETokenizer:
    path = cache_dir / "tokenizers" / f"{_fingerprint(documents, vocab_size)}.json"
    try:
        return BPETokenizer(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8")))
    # No file yet, or one that is broken, for which the backend raises bare exceptions.
    except Exception:
        size = sum(len(document) for document in documents) / 1e6
        progress(f"training the tokenizer on {size:.1f} M characters")
        tokenizer = BPETokenizer.fit(documents, vocab_size)
    try:
        write_text(path, tokenizer.backend.to_str())
    except StorageError as error:  # a cache that cannot be written costs time and nothing else
        progress(f"the tokenizer is not cached: {error}")
    return tokenizer


def _fingerprint(documents: Iterable[str], vocab_size: int) -> str:
    digest = hashlib.sha256(f"{tokenizers.__version__} {vocab_size}".encode())
    for document in documents:
        data = document.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
