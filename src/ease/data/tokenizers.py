"""Text -> token ids and back: words, bytes, a BPE of our own, or any Hugging Face tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import tokenizers

from ease.errors import DataError
from ease.storage import write_json

Ids = npt.NDArray[np.int32]

END_OF_TEXT = "<|endoftext|>"
KIND_FILE = "tokenizer.kind.json"
_WORDS_FILE = "words.json"
_UNKNOWN, _PADDING = "<unk>", "<pad>"

# A long document is encoded in pieces: in parallel, and without an object for every token of it.
_PIECE = 20_000  # characters
_AFTER_A_LETTER = re.compile(r"(?<=[^\W\d_]) ")
_PIECES_AT_ONCE = 256


class Tokenizer(Protocol):
    """What the rest of ease needs of a tokenizer."""

    @property
    def kind(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def end_of_text(self) -> int | None:
        """The token that separates documents, where there is one."""

    def encode(self, documents: Sequence[str]) -> list[Ids]:
        """One array of ids a document; no special tokens are added."""

    def decode(self, ids: Iterable[int]) -> str: ...

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` needs into an existing folder."""


class WordTokenizer:
    """Lowercase words between white space; `<unk>` is 0 and `<pad>` is 1."""

    kind = "word"
    end_of_text: int | None = None

    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self._ids = {word: number for number, word in enumerate(self._words)}

    @classmethod
    def fit(cls, documents: Iterable[str]) -> Self:
        """The vocabulary of the documents, in order of appearance."""
        seen = dict.fromkeys((_UNKNOWN, _PADDING))
        for document in documents:
            seen.update(dict.fromkeys(document.lower().split()))
        return cls(list(seen))

    @property
    def vocab_size(self) -> int:
        return len(self._words)

    def encode(self, documents: Sequence[str]) -> list[Ids]:
        return [self._encode(document) for document in documents]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self._words[number] for number in ids)

    def save(self, folder: Path) -> None:
        write_json(folder / _WORDS_FILE, self._words)
        _save_kind(folder, self.kind)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(json.loads((folder / _WORDS_FILE).read_text(encoding="utf-8")))

    def _encode(self, document: str) -> Ids:
        find = self._ids.get
        words = document.lower().split()
        return np.fromiter((find(word, 0) for word in words), np.int32, len(words))


class ByteTokenizer:
    """The 256 bytes of UTF-8 and an end-of-text token."""

    kind = "byte"
    vocab_size = 257
    end_of_text: int | None = 256

    def encode(self, documents: Sequence[str]) -> list[Ids]:
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in documents]

    def decode(self, ids: Iterable[int]) -> str:
        end = END_OF_TEXT.encode()
        data = b"".join(end if number == 256 else bytes((number,)) for number in ids)
        return data.decode("utf-8", errors="replace")

    def save(self, folder: Path) -> None:
        _save_kind(folder, self.kind)


class BPETokenizer:
    """A byte-level BPE: every text has an encoding, and none but ours ends a document."""

    kind = "bpe"

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = backend
        # Text that spells the end-of-text token must not become that token. The file that the
        # backend writes does not keep this switch.
        backend.encode_special_tokens = True
        self.end_of_text: int | None = backend.token_to_id(END_OF_TEXT)

    @classmethod
    def fit(cls, documents: Iterable[str], vocab_size: int) -> Self:
        backend = tokenizers.Tokenizer(tokenizers.models.BPE())
        backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        pieces = (piece for document in documents for piece in cut_long(document))
        backend.train_from_iterator(pieces, trainer)
        return cls(backend)

    @property
    def vocab_size(self) -> int:
        return self.backend.get_vocab_size()

    def encode(self, documents: Sequence[str]) -> list[Ids]:
        return encode_in_pieces(self.backend, documents)

    def decode(self, ids: Iterable[int]) -> str:
        return self.backend.decode(list(map(int, ids)), skip_special_tokens=False)

    def save(self, folder: Path) -> None:
        write_json(folder / "tokenizer.json", json.loads(self.backend.to_str()))
        special = {"eos_token": END_OF_TEXT, "bos_token": None, "unk_token": None}
        write_json(
            folder / "tokenizer_config.json",
            {"tokenizer_class": "PreTrainedTokenizerFast", **special},
        )
        _save_kind(folder, self.kind)

    @classmethod
    def load(cls, folder: Path) -> Self:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        return cls(tokenizers.Tokenizer.from_str(text))


class HFTokenizer:
    """A tokenizer of Hugging Face transformers, by its id on the hub or from a folder.

    Special tokens are not added, but those that the text spells count, as in a chat template.
    """

    kind = "hf"

    def __init__(self, name: str) -> None:
        from transformers import AutoTokenizer  # slow to import, and most runs do without

        try:
            self._inner: Any = AutoTokenizer.from_pretrained(name)
        except Exception as error:  # network, rights, a wrong name, a broken file
            cause = " ".join(str(error).split())
            raise DataError(
                f"hf:{name}: the tokenizer could not be loaded ({cause}); check the name, the "
                "folder and the network"
            ) from error
        self.end_of_text: int | None = self._inner.eos_token_id
        # Ids may have gaps: the largest one counts, not how many there are.
        self.vocab_size = max(self._inner.get_vocab().values()) + 1
        self._backend = self._inner.backend_tokenizer if self._inner.is_fast else None
        if self._backend is not None:
            self._backend.no_truncation()
            self._backend.no_padding()

    def encode(self, documents: Sequence[str]) -> list[Ids]:
        if self._backend is not None:
            return encode_in_pieces(self._backend, documents)
        encoded = self._inner(list(documents), add_special_tokens=False)["input_ids"]
        return [np.array(ids, np.int32) for ids in encoded]

    def decode(self, ids: Iterable[int]) -> str:
        return str(self._inner.decode(list(map(int, ids)), clean_up_tokenization_spaces=False))

    def save(self, folder: Path) -> None:
        self._inner.save_pretrained(str(folder))
        _save_kind(folder, self.kind)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read back what a tokenizer's `save` wrote.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from ease import load_tokenizer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ByteTokenizer().save(Path(folder))
    ...     load_tokenizer(Path(folder)).decode([72, 105])
    'Hi'
    """
    kind_file = folder / KIND_FILE
    try:
        kind = json.loads(kind_file.read_text(encoding="utf-8"))["kind"]
        if kind == WordTokenizer.kind:
            return WordTokenizer.load(folder)
        if kind == ByteTokenizer.kind:
            return ByteTokenizer()
        if kind == BPETokenizer.kind:
            return BPETokenizer.load(folder)
        if kind == HFTokenizer.kind:
            return HFTokenizer(str(folder))
    except FileNotFoundError as error:
        raise DataError(f"{error.filename}: no such file: {folder} holds no tokenizer") from error
    except DataError:
        raise
    except Exception as error:  # the backend raises bare exceptions at a broken file
        raise DataError(f"{folder}: the tokenizer's files are broken ({error})") from error
    raise DataError(f"{kind_file}: unknown kind of tokenizer {kind!r}")


def cut_long(document: str) -> Iterator[str]:
    """Pieces of a document that byte-level BPE encodes as it would the whole.

    Its words never reach from a letter into the space behind it, so that is where to cut.
    """
    start = 0
    while len(document) - start > _PIECE:
        cut = _AFTER_A_LETTER.search(document, start + _PIECE)
        if cut is None:
            break
        yield document[start : cut.start()]
        start = cut.start()
    yield document[start:]


def encode_in_pieces(backend: tokenizers.Tokenizer, documents: Sequence[str]) -> list[Ids]:
    """Encode with a backend of `tokenizers`, long documents in pieces where that is exact."""
    exact = _is_byte_level(backend)
    pieces = (
        (number, piece)
        for number, document in enumerate(documents)
        for piece in (cut_long(document) if exact else (document,))
    )
    encoded: list[list[Ids]] = [[] for _ in documents]
    while batch := list(islice(pieces, _PIECES_AT_ONCE)):
        texts = [piece for _, piece in batch]
        found = backend.encode_batch_fast(texts, add_special_tokens=False)
        for (number, _), encoding in zip(batch, found, strict=True):
            encoded[number].append(np.array(encoding.ids, np.int32))
    return [np.concatenate(arrays) for arrays in encoded]


def _is_byte_level(backend: tokenizers.Tokenizer) -> bool:
    pre_tokenizer = backend.pre_tokenizer
    return pre_tokenizer is not None and "ByteLevel" in repr(pre_tokenizer)


def _save_kind(folder: Path, kind: str) -> None:
    write_json(folder / KIND_FILE, {"kind": kind})
