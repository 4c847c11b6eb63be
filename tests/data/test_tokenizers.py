from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from ease.data import DataConfig, Tokenizer, load_tokenizer
from ease.data.fitting import build_tokenizer, default_cache_dir
from ease.data.tokenizers import (
    END_OF_TEXT,
    BPETokenizer,
    ByteTokenizer,
    HFTokenizer,
    WordTokenizer,
    cut_long,
    encode_in_pieces,
)
from ease.errors import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PROSE = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 3,
    # Runs of white space become tokens, which a cut in a wrong place would break.
    "".join(f"{''.join(run)}x" for run in product(" \n\t", repeat=3)) * 9,
]
LONG = " ".join(f"Word {n}, it's\n\n  {n * 7} café_{n}  _x _\t語 no. {n}\n" for n in range(3000))

SIZE = 400
BPE = BPETokenizer.fit(PROSE, SIZE)


def build(kind: str, folder: Path) -> Tokenizer:
    if kind.startswith("hf"):
        BPE.save(folder)
        return HFTokenizer(str(folder))
    if kind == "word":
        return WordTokenizer.fit(PROSE)
    return BPE if kind == "bpe" else ByteTokenizer()


def ids(tokenizer: Tokenizer, documents: Sequence[str]) -> list[list[int]]:
    return [array.tolist() for array in tokenizer.encode(documents)]


def test_words_are_numbered_in_order_of_appearance() -> None:
    tokenizer = WordTokenizer.fit(["The cat\n<unk> sat", "the  Dog <pad>"])
    assert tokenizer.vocab_size == 6
    assert ids(tokenizer, ["DOG the bird <unk> <pad>", "cat sat", ""]) == [
        [5, 2, 0, 0, 1],
        [3, 4],
        [],
    ]
    assert tokenizer.decode([2, 3, 0]) == "the cat <unk>"
    assert tokenizer.end_of_text is None


def test_wikitext_2_has_28912_words(wikitext: Path) -> None:
    texts = [(wikitext / f"{part}.txt").read_text("utf-8") for part in ("train", "valid")]
    assert WordTokenizer.fit(texts).vocab_size == 28_912


@given(text=TEXT)
def test_bytes_and_bpe_give_every_text_back(text: str) -> None:
    for tokenizer in (ByteTokenizer(), BPE):
        (encoded,) = tokenizer.encode([text])
        assert encoded.dtype == np.int32
        assert tokenizer.decode(encoded) == text
        assert tokenizer.end_of_text not in encoded


def test_text_cannot_forge_the_end_of_a_document() -> None:
    for tokenizer in (ByteTokenizer(), BPE, BPETokenizer.fit([END_OF_TEXT * 50], 300)):
        (encoded,) = tokenizer.encode([f"a{END_OF_TEXT}b"])
        assert tokenizer.end_of_text not in encoded
        assert tokenizer.decode([*encoded, tokenizer.end_of_text or 0]).endswith("b" + END_OF_TEXT)


@settings(max_examples=10)
@given(vocab_size=st.integers(258, 400))
def test_a_trained_bpe_keeps_to_its_size_and_is_the_same_each_time(vocab_size: int) -> None:
    one, two = (BPETokenizer.fit(PROSE, vocab_size) for _ in range(2))
    assert one.vocab_size <= vocab_size
    assert one.backend.to_str() == two.backend.to_str()


@given(text=st.text(st.sampled_from("ab1._ \n\té語'\u00a0"), min_size=20, max_size=80))
def test_whatever_stands_where_a_long_document_is_cut_its_tokens_stay(text: str) -> None:
    document = "word " * 3998 + text + " and so on" * 10
    pieces = list(cut_long(document))
    assert len(pieces) == 2
    assert "".join(pieces) == document
    assert ids(BPE, [document])[0] == BPE.backend.encode(document).ids


def test_a_long_document_is_encoded_as_if_it_were_never_cut() -> None:
    whole = BPE.backend.encode(LONG).ids
    assert ids(BPE, ["a", LONG, "", LONG + "b"])[1] == whole


@pytest.mark.parametrize("pre_tokenizer", [None, pre_tokenizers.Digits()])
def test_a_backend_whose_words_may_reach_into_a_space_gets_its_documents_whole(
    pre_tokenizer: pre_tokenizers.PreTokenizer | None,
) -> None:
    vocabulary = {"d": 0, " ": 1, "d ": 2, "<unk>": 3}
    backend = Backend(models.BPE(vocabulary, [("d", " ")], unk_token="<unk>"))
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    assert encode_in_pieces(backend, [LONG])[0].tolist() == backend.encode(LONG).ids


@pytest.mark.parametrize("kind", ["word", "byte", "bpe", "hf"])
def test_a_saved_tokenizer_comes_back(kind: str, tmp_path: Path) -> None:
    built = tmp_path / "built"
    saved = tmp_path / "saved"
    built.mkdir()
    saved.mkdir()
    tokenizer = build(kind, built)
    tokenizer.save(saved)
    loaded = load_tokenizer(saved)
    texts = ["the lazy dog", "def f(x): 語", f"a{END_OF_TEXT}"]
    assert ids(loaded, texts) == ids(tokenizer, texts)
    assert loaded.decode(loaded.encode(texts)[0]) == texts[0]
    assert (loaded.kind, loaded.vocab_size) == (tokenizer.kind, tokenizer.vocab_size)
    assert loaded.end_of_text == tokenizer.end_of_text


def test_hugging_face_tools_read_the_folder_of_a_trained_bpe(tmp_path: Path) -> None:
    BPE.save(tmp_path)
    theirs = HFTokenizer(str(tmp_path))
    assert theirs.end_of_text == BPE.end_of_text
    assert theirs.vocab_size == BPE.vocab_size
    assert ids(theirs, [*PROSE, LONG]) == ids(BPE, [*PROSE, LONG])
    assert theirs.decode(theirs.encode(["a , b ."])[0]) == "a , b ."


def test_truncation_that_a_tokenizer_was_saved_with_does_not_cut_text(tmp_path: Path) -> None:
    BPE.save(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    content["truncation"] = {
        "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0
    }  # fmt: skip
    file.write_text(json.dumps(content))
    assert ids(HFTokenizer(str(tmp_path)), PROSE) == ids(BPE, PROSE)


def test_a_tokenizer_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"hf:.*gone: the tokenizer could not be loaded"):
        HFTokenizer(str(tmp_path / "gone"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no such file.*holds no tokenizer"),
        ({"tokenizer.kind.json": "{"}, "files are broken"),
        ({"tokenizer.kind.json": '{"kind": "rune"}'}, "unknown kind of tokenizer 'rune'"),
        ({"tokenizer.kind.json": '{"kind": "word"}'}, "words.json: no such file"),
        ({"tokenizer.kind.json": '{"kind": "bpe"}', "tokenizer.json": "{}"}, "files are broken"),
    ],
)
def test_a_folder_that_is_not_whole_is_a_clear_error(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        load_tokenizer(tmp_path)


def fit(cache: Path, documents: Sequence[str], vocab_size: int = SIZE) -> tuple[Tokenizer, str]:
    """A BPE from this cache, and what was said on the way."""
    said: list[str] = []
    config = DataConfig(vocab_size=vocab_size)
    tokenizer = build_tokenizer(config, documents, ["never seen"], cache, said.append)
    return tokenizer, " ".join(said)


def test_a_trained_bpe_is_trained_once(tmp_path: Path) -> None:
    first, said = fit(tmp_path, PROSE)
    assert "training the tokenizer" in said
    again, said = fit(tmp_path, PROSE)
    assert said == ""
    assert ids(again, [*PROSE, END_OF_TEXT]) == ids(first, [*PROSE, END_OF_TEXT])


def test_other_text_or_another_size_is_another_tokenizer(tmp_path: Path) -> None:
    fit(tmp_path, ["ab", "c"])
    for documents, vocab_size in ((["a", "bc"], SIZE), (["abc"], SIZE), (["ab", "c"], SIZE + 1)):
        assert "training the tokenizer" in fit(tmp_path, documents, vocab_size)[1]


def test_a_cache_that_cannot_be_used_does_not_stop_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a folder")
    tokenizer, said = fit(tmp_path / "file", PROSE)
    assert "not cached" in said
    assert ids(tokenizer, PROSE) == ids(BPE, PROSE)


def test_a_broken_cache_file_is_trained_again(tmp_path: Path) -> None:
    fit(tmp_path, PROSE)
    (cached,) = tmp_path.rglob("*.json")
    whole = cached.read_text()
    cached.write_text(whole[:100])
    assert "training the tokenizer" in fit(tmp_path, PROSE)[1]
    assert cached.read_text() == whole


def test_the_cache_stands_where_xdg_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert default_cache_dir() == tmp_path / "elsewhere" / "ease"
    for nothing in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        assert default_cache_dir() == tmp_path / ".cache" / "ease"


def test_real_prose_is_encoded_as_if_it_were_never_cut(wikitext: Path) -> None:
    novels = wikitext.parent / "novels" / "valid.txt.xz"
    for data in (
        (wikitext / "test.txt").read_bytes(),
        lzma.decompress(novels.read_bytes())[:1_000_000],
    ):
        text = data.decode(errors="ignore")
        assert ids(BPE, [text])[0] == BPE.backend.encode(text).ids
