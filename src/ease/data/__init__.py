"""Text -> tokens in splits -> batches, and who may read which split."""

from ease.data.config import DataConfig
from ease.data.corpus import Corpus, load_corpus, text_blocks
from ease.data.packing import Batch, Batches, Blocks, ProtocolName, require_tokens
from ease.data.sources import Say
from ease.data.splits import Reader, SplitName, Splits, require_reader
from ease.data.tokenizers import Tokenizer, load_tokenizer

__all__ = [
    "Batch",
    "Batches",
    "Blocks",
    "Corpus",
    "DataConfig",
    "ProtocolName",
    "Reader",
    "Say",
    "SplitName",
    "Splits",
    "Tokenizer",
    "load_corpus",
    "load_tokenizer",
    "require_reader",
    "require_tokens",
    "text_blocks",
]
