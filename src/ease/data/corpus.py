"""Everything together: a configuration -> tokens in splits, and what a run prints about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ease.data.config import DataConfig
from ease.data.cuts import Cut, cut_documents, fitting_text, plan_cuts
from ease.data.files import read_documents
from ease.data.fitting import build_tokenizer
from ease.data.packing import Blocks, ProtocolName, pack, token_hash
from ease.data.sources import Say, Source, read_source
from ease.data.splits import SplitName, Splits
from ease.data.tokenizers import Ids, Tokenizer
from ease.errors import DataError


@dataclass(frozen=True)
class Corpus:
    """The data of a run."""

    name: str
    tokenizer: Tokenizer
    splits: Splits
    hashes: dict[SplitName, str]
    tokens: dict[SplitName, int]
    lines: list[str]


def load_corpus(
    config: DataConfig,
    protocol: ProtocolName,
    cache_dir: Path | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    progress: Say = lambda _: None,
) -> Corpus:
    """Read, encode and split a run's data; `tokenizer` is that of a saved run, used as it is.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from ease import DataConfig, load_corpus
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "text.txt")
    ...     _ = path.write_text("a few words of text " * 100)
    ...     config = DataConfig(source=str(path), tokenizer="byte", seq_len=8)
    ...     corpus = load_corpus(config, "honest")
    >>> corpus.tokens["train"], corpus.splits.names
    (1800, ('train', 'selection', 'calibration', 'gate', 'test'))
    """
    source = read_source(config, progress)
    cuts, notes = plan_cuts(source.parts)
    if tokenizer is None:
        by_words = config.tokenizer == "word"
        train, validation = (
            fitting_text(source.parts, cuts[split], by_words) for split in ("train", "validation")
        )
        tokenizer = build_tokenizer(config, train, validation, cache_dir, progress)
    limits = _limits(config.samples)
    tokens = _encode(source, cuts, tokenizer, limits, progress)
    splits = Splits(tokens, config.seq_len, protocol)
    if config.samples is not None:
        limited = ", ".join(f"{limit:,} of {split}" for split, limit in limits.items())
        notes.append(f"data.samples={config.samples} takes the first tokens: {limited}")
    return Corpus(
        name=source.name,
        tokenizer=tokenizer,
        splits=splits,
        hashes=splits.hashes(),
        tokens=splits.lengths(),
        lines=[
            f"{'source':<12}{source.name}",
            *(f"{'':<12}{note}" for note in [*source.notes, *notes]),
            f"{'tokenizer':<12}{tokenizer.kind}, {tokenizer.vocab_size:,} types",
            f"{'protocol':<12}{protocol}, blocks of {config.seq_len} tokens",
            *splits.lines(),
        ],
    )


def text_blocks(
    path: Path, tokenizer: Tokenizer, seq_len: int, fields: Sequence[str] = ("text",)
) -> tuple[Blocks, dict[str, str | int]]:
    """Every document of one file as blocks that anybody may read, and what is in them."""
    documents = read_documents(path, fields)
    tokens = pack(tokenizer, documents)
    if len(tokens) <= seq_len:
        raise DataError(
            f"{path} has {len(tokens):,} tokens and one block of {seq_len} needs {seq_len + 1:,}: "
            "give more text, or shorter blocks"
        )
    blocks = Blocks(tokens, seq_len, "data")
    facts: dict[str, str | int] = {
        "path": str(path),
        "documents": len(documents),
        "tokens": len(tokens),
        "blocks": len(blocks),
        "sha256": token_hash(tokens),
    }
    return blocks, facts


def _limits(samples: int | None) -> dict[str, int]:
    if samples is None:
        return {}
    train = 33 * samples
    return {"train": train, "validation": train // 5, "test": train // 5}


def _encode(
    source: Source,
    cuts: Mapping[str, Cut],
    tokenizer: Tokenizer,
    limits: Mapping[str, int],
    progress: Say,
) -> dict[str, Ids]:
    """The tokens of each split. A part that is cut by tokens is encoded once, as a whole."""
    whole: dict[str, Ids] = {}
    encoded: dict[str, Ids] = {}
    for split, cut in cuts.items():
        limit = limits.get(split)
        documents = cut_documents(source.parts, cut)
        if cut.unit == "documents":
            progress(f"encoding {split}")
            encoded[split] = pack(tokenizer, documents, limit)
            continue
        if cut.part not in whole:
            progress(f"encoding {cut.part}")
            whole[cut.part] = pack(tokenizer, documents)
        start, stop = cut.bounds(len(whole[cut.part]))
        encoded[split] = whole[cut.part][start:stop][:limit]
    return encoded
