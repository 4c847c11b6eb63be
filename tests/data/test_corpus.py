from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ease.data import Batches, DataConfig, load_corpus, load_tokenizer, text_blocks
from ease.data.tokenizers import ByteTokenizer
from ease.errors import DataError

Rows = Callable[[str, Sequence[object]], Path]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_the_reference_data_is_161_and_32_batches(wikitext: Path) -> None:
    config = DataConfig(source=str(wikitext), tokenizer="word", seq_len=32, samples=10_000)
    corpus = load_corpus(config, "reference")
    assert corpus.tokenizer.vocab_size == 28_912
    assert corpus.tokens == {"train": 330_000, "validation": 66_000, "test": 66_000}
    batches = [
        Batches(corpus.splits.open(split, "report"), 64, drop_last=True)
        for split in corpus.splits.names
    ]
    assert [len(some) for some in batches] == [161, 32, 32]
    x, y = next(iter(batches[0]))
    assert corpus.tokenizer.decode(x[0].tolist()).startswith("= valkyria chronicles iii =")
    assert x[0, 1:].tolist() == y[0, :-1].tolist()


def test_the_honest_protocol_cuts_the_same_text_further(wikitext: Path) -> None:
    config = DataConfig(source=str(wikitext), tokenizer="word", seq_len=32, samples=10_000)
    corpus = load_corpus(config, "honest")
    assert corpus.tokens == {
        "train": 330_000,
        "selection": 33_000,
        "calibration": 16_500,
        "gate": 16_500,
        "test": 66_000,
    }


def test_the_embedded_corpus_trains_a_tokenizer_and_fills_every_split(cache: Path) -> None:
    said: list[str] = []
    corpus = load_corpus(DataConfig(), "honest", cache, progress=said.append)
    assert corpus.tokenizer.vocab_size == 4096
    assert corpus.tokens["train"] > 1_000_000
    assert len(corpus.splits.open("gate", "acceptance")) > 50
    assert said[0] == "reading stdlib"
    assert any("Python 3." in line for line in corpus.lines)
    again = load_corpus(DataConfig(), "honest", cache)
    assert again.hashes == corpus.hashes


@pytest.mark.parametrize("tokenizer", ["byte", "word", "bpe"])
def test_one_file_is_cut_by_contiguous_tokens(tmp_path: Path, tokenizer: str) -> None:
    path = tmp_path / "a.txt"
    text = "".join(f"word{number % 50}\n" for number in range(500))
    path.write_text(text)
    config = DataConfig(source=str(path), tokenizer=tokenizer, seq_len=2)
    corpus = load_corpus(config, "reference", tmp_path)
    parts = [corpus.splits.open(split, "report").tokens for split in corpus.splits.names]
    (whole,) = corpus.tokenizer.encode([text])
    assert np.array_equal(np.concatenate(parts), whole)
    count = len(whole)
    assert len(parts[0]) == count * 18 // 20
    assert len(parts[1]) == count * 19 // 20 - count * 18 // 20
    assert any("tokens of all from 90 % to 95 %" in line for line in corpus.lines)


def test_words_that_only_test_has_are_unknown(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(200)]
    (tmp_path / "a.txt").write_text(" ".join(words))
    corpus = load_corpus(DataConfig(source=str(tmp_path), tokenizer="word"), "reference")
    train, validation, test = (corpus.splits.open(s, "report").tokens for s in corpus.splits.names)
    assert [*train, *validation] == list(range(2, 192))
    assert test.tolist() == [0] * 10


def test_many_rows_are_cut_by_whole_documents(write_rows: Rows) -> None:
    path = write_rows("a.jsonl", [{"text": f"{number:03}"} for number in range(100)])
    corpus = load_corpus(DataConfig(source=str(path), tokenizer="byte", seq_len=2), "reference")
    texts = [
        corpus.tokenizer.decode(corpus.splits.open(split, "report").tokens)
        for split in corpus.splits.names
    ]
    parts = [text.split("<|endoftext|>") for text in texts]
    assert [(part[0], part[-1]) for part in parts] == [
        ("000", "089"),
        ("090", "094"),
        ("095", "099"),
    ]


def test_a_bpe_is_trained_on_train_alone(tmp_path: Path) -> None:
    def tokenizer(validation: str) -> list[list[int]]:
        for name, text in (("train", "tick tock " * 50), ("val", validation), ("test", "c d e")):
            (tmp_path / f"{name}.txt").write_text(text)
        config = DataConfig(source=str(tmp_path), vocab_size=300)
        made = load_corpus(config, "honest", tmp_path / ".cache").tokenizer
        return [ids.tolist() for ids in made.encode(["tick tock", "zebra zebra"])]

    assert tokenizer("something else") == tokenizer("zebra " * 500)


def test_a_corpus_shorter_than_its_samples_gives_all_it_has(tmp_path: Path) -> None:
    for name, count in (("train", 50), ("val", 100), ("test", 100)):
        (tmp_path / f"{name}.txt").write_text("a" * count)
    config = DataConfig(source=str(tmp_path), tokenizer="byte", samples=2)
    corpus = load_corpus(config, "reference")
    assert corpus.tokens == {"train": 50, "validation": 13, "test": 13}


def test_a_saved_run_loads_the_same_tokens_with_its_own_tokenizer(tmp_path: Path) -> None:
    text, saved = tmp_path / "text", tmp_path / "saved"
    text.mkdir()
    saved.mkdir()
    (text / "a.txt").write_text("one two three four five six seven eight nine ten\n" * 20)
    config = DataConfig(source=str(text), vocab_size=280, seq_len=4)
    corpus = load_corpus(config, "honest", tmp_path / "cache")
    corpus.tokenizer.save(saved)
    said: list[str] = []
    again = load_corpus(
        config,
        "honest",
        tmp_path / "other",
        tokenizer=load_tokenizer(saved),
        progress=said.append,
    )
    assert again.hashes == corpus.hashes
    assert not any("training" in message for message in said)


def test_the_first_lines_of_a_run_say_where_each_split_comes_from(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("a" * 400)
    config = DataConfig(source=str(tmp_path), tokenizer="byte", seq_len=8)
    lines = "\n".join(load_corpus(config, "honest").lines)
    for words in (
        "validation: valid.txt",
        "byte, 257 types",
        "validation[0:200], read by selection, report",
        "validation[300:400], read by acceptance",
    ):
        assert words in lines


def test_the_hash_of_a_split_is_that_of_its_tokens(tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("ab")
    corpus = load_corpus(DataConfig(source=str(tmp_path), tokenizer="byte"), "reference")
    assert corpus.hashes["train"] == hashlib.sha256(b"a\0\0\0b\0\0\0").hexdigest()


def test_text_to_evaluate_is_all_of_a_file_and_nothing_else(write_rows: Rows) -> None:
    path = write_rows("a.jsonl", [{"q": "ab", "a": "c"}, {"q": "d", "a": "e"}])
    blocks, facts = text_blocks(path, ByteTokenizer(), 4, ["q", "a"])
    assert blocks.tokens.tolist() == [*b"ab\nc", 256, *b"d\ne"]
    assert blocks.split == "data"
    assert (facts["documents"], facts["tokens"], facts["blocks"]) == (2, 8, 1)


def test_text_too_short_to_evaluate_says_how_much_is_needed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abcd")
    with pytest.raises(DataError, match=r"a\.txt has 4 tokens and one block of 4 needs 5"):
        text_blocks(tmp_path / "a.txt", ByteTokenizer(), 4)
    assert len(text_blocks(tmp_path / "a.txt", ByteTokenizer(), 3)[0]) == 1
