"""What text a run reads, and how it becomes tokens and blocks."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from ease.settings import Settings

HUB = "hf:"
# 256 bytes, the end-of-text token, and one merge: less is the byte tokenizer.
SMALLEST_BPE = 258


class DataConfig(Settings):
    """The `data` section of a run."""

    source: str = Field(
        "stdlib",
        min_length=1,
        description="'stdlib' (the running Python's own source text), a file or folder, "
        "or 'hf:owner/name' for a dataset of the Hugging Face hub",
    )
    subset: str | None = Field(None, description="configuration name of a Hugging Face dataset")
    streaming: bool = Field(
        False, description="read a Hugging Face dataset row by row, without storing it"
    )
    max_documents: int | None = Field(
        None, ge=1, description="rows to take of each split of a Hugging Face dataset"
    )
    # YAML knows lists, not tuples: this one key takes both.
    fields: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = Field(
        ("text",), description="fields of a jsonl, parquet or dataset row, joined by newlines"
    )
    tokenizer: str = Field(
        "bpe", description="'word', 'byte', 'bpe' (trained on train) or 'hf:<id or folder>'"
    )
    vocab_size: int = Field(
        4096, ge=SMALLEST_BPE, description="types of the trained 'bpe'; others bring their own"
    )
    seq_len: int = Field(128, ge=1, description="tokens a block")
    samples: int | None = Field(
        None,
        ge=1,
        description="N takes the first 33 N tokens of train, 33 N / 5 of validation and of test",
    )

    @field_validator("tokenizer")
    @classmethod
    def _known_tokenizer(cls, value: str) -> str:
        if value in ("word", "byte", "bpe") or (value.startswith(HUB) and value != HUB):
            return value
        raise ValueError(
            f"unknown tokenizer {value!r}: choose word, byte, bpe or hf:<id or folder>"
        )

    @model_validator(mode="after")
    def _hub_keys(self) -> Self:
        if self.source == HUB:
            raise ValueError("source 'hf:' names no dataset: write hf:owner/name")
        if self.streaming and self.max_documents is None:
            raise ValueError("streaming needs max_documents: how many rows to take of each split")
        if not self.source.startswith(HUB):
            for key in ("subset", "streaming", "max_documents"):
                if getattr(self, key):
                    raise ValueError(f"{key} is for a Hugging Face dataset (source hf:owner/name)")
        return self
