"""Text that cannot be used: one line that names it and says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .commands import Ease, settings, text

FILES = {
    "empty.txt": (b"", ["empty.txt is empty"]),
    "blank.txt": (b" \n\n", ["blank.txt is empty"]),
    "latin.txt": (b"caf\xe9 " * 100, ["latin.txt: not UTF-8 at byte 3", "convert"]),
    "paper.pdf": (b"%PDF", ["paper.pdf: unknown kind of file", ".txt, .jsonl, .parquet"]),
    "text": (b"a text without a suffix", ["text: unknown kind of file", ".txt"]),
    "other.jsonl": (b'{"body": "a"}\n', ["line 1: no field 'text'", "data.fields", "'body'"]),
    "cut.jsonl": (b'{"text": "a"}\n{"te\n', ["cut.jsonl, line 2: not valid JSON"]),
    "cut.txt.gz": (b"\x1f\x8b\x08", ["cut.txt.gz: not a whole .gz file"]),
    "short.txt": (b"too short\n" * 5, ["'train' has 45 tokens", "optim.batch_size"]),
}


@pytest.mark.parametrize("name", FILES)
def test_text_that_cannot_be_used_is_one_line_that_says_what_to_do(
    ease: Ease, tmp_path: Path, name: str
) -> None:
    data, words = FILES[name]
    (tmp_path / name).write_bytes(data)
    answer = ease("train", "quickstart", *settings(name))
    assert (answer.code, answer.out) == (2, "")
    for word in words:
        assert word in answer.complaint
    assert not (tmp_path / "runs").exists()


def test_a_path_that_is_not_there_says_what_a_source_may_be(ease: Ease) -> None:
    answer = ease("train", "quickstart", *settings("gone/text.txt"))
    assert (answer.code, answer.out) == (2, "")
    assert "gone/text.txt: there is no such file or folder" in answer.complaint
    assert "data.source is stdlib, a file, a folder or hf:owner/name" in answer.complaint


@pytest.mark.parametrize("protocol", ["honest", "reference"])
def test_held_out_text_without_one_batch_is_named(
    ease: Ease, tmp_path: Path, protocol: str
) -> None:
    (tmp_path / "text").mkdir()
    for part, words in (("train", 500), ("valid", 500), ("test", 1)):
        (tmp_path / "text" / f"{part}.txt").write_text(text(words), encoding="utf-8")
    answer = ease(
        "train", "quickstart", *settings("text", protocol=protocol), "--set", "stop.max_steps=1"
    )
    assert (answer.code, answer.out) == (2, "")
    assert "'test' has 4 tokens" in answer.complaint
    assert "\nphase " not in answer.err


@pytest.mark.parametrize(
    ("source", "module", "what"),
    [
        ("rows.parquet", "pyarrow", "reading parquet"),
        ("hf:owner/name", "datasets", "reading a Hugging Face dataset"),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    ease: Ease,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    module: str,
    what: str,
) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, module, None)
    answer = ease("train", "quickstart", *settings(source))
    assert (answer.code, answer.out) == (2, "")
    assert f"{what} needs an extra: pip install -e '.[data]'" in answer.complaint
