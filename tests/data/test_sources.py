from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ease.data import DataConfig
from ease.data.sources import Source, part_of, read_source
from ease.errors import DataError

Read = Callable[..., Source]


@pytest.fixture
def folder(tmp_path: Path) -> Read:
    def read(**files: str) -> Source:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return read_source(DataConfig(source=str(tmp_path)), print)

    return read


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("train.txt", "train"),
        ("alpaca_train.jsonl", "train"),
        ("wiki.Train.txt", "train"),
        ("train-00000-of-00002.parquet", "train"),
        ("train2.txt", "train"),
        ("train/a.txt", "train"),
        ("test/train.txt", "train"),
        ("training.jsonl", "train"),
        ("valid.txt", "validation"),
        ("a-val.txt", "validation"),
        ("dev.jsonl", "validation"),
        ("development.jsonl", "validation"),
        ("validation/x/a.txt", "validation"),
        ("test.txt", "test"),
        ("testing.txt", "test"),
        ("latest.txt", None),
        ("trainer.txt", None),
        ("contest/values.txt", None),
        ("train_test.txt", None),
    ],
)
def test_a_name_tells_its_part_by_whole_words(name: str, part: str | None) -> None:
    assert part_of(name) == part


def test_files_of_one_part_are_read_in_name_order(folder: Read) -> None:
    source = folder(**{"train-2.txt": "b", "train-1.txt": "a", "train-3.txt": "c", "val.txt": "v"})
    assert source.parts == {"train": ["a", "b", "c"], "validation": ["v"]}


def test_where_no_name_tells_all_files_are_one_text(folder: Read) -> None:
    assert folder(**{"b.txt": "b", "a/latest.txt": "a"}).parts == {"all": ["a", "b"]}


def test_files_that_do_not_tell_are_left_out_and_named(folder: Read) -> None:
    source = folder(**{"train.txt": "a", "LICENSE.txt": "do not read"})
    assert source.parts == {"train": ["a"]}
    assert any("left out" in note and "LICENSE.txt" in note for note in source.notes)


def test_hidden_and_foreign_files_do_not_count(folder: Read) -> None:
    files = {"a.txt": "a", ".b.txt": "b", ".git/train.txt": "c", "train.md": "d"}
    assert folder(**files).parts == {"all": ["a"]}


def test_a_folder_without_a_training_file_says_what_is_there(folder: Read) -> None:
    with pytest.raises(DataError, match=r"nothing to train on.*validation: valid.txt; test: test"):
        folder(**{"valid.txt": "a", "test.txt": "b"})


def test_a_folder_without_text_files_is_refused(folder: Read) -> None:
    with pytest.raises(DataError, match="no file in it that ease can read"):
        folder(**{"readme.md": "a"})


def test_an_empty_file_in_a_folder_is_named(folder: Read) -> None:
    with pytest.raises(DataError, match=r"valid.txt is empty"):
        folder(**{"train.txt": "a", "valid.txt": "\n"})


def test_a_single_file_is_all_there_is_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("a")
    config = DataConfig(source=str(tmp_path / "test.txt"))
    assert read_source(config, print).parts == {"all": ["a"]}


def test_a_path_that_is_not_there_is_named_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone: there is no such file or folder.*stdlib"):
        read_source(DataConfig(source=str(tmp_path / "gone")), print)
