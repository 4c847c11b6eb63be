from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ease.data import DataConfig
from ease.data.sources import Source, read_source
from ease.errors import DataError, MissingExtraError

Rows = Callable[[str, Sequence[object]], Path]


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """datasets reads its environment once, on import: set both what it reads and what it read."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


@pytest.fixture
def dataset(tmp_path: Path, write_rows: Rows) -> str:
    for split, count in (("train", 30), ("validation", 4), ("test", 3)):
        rows = [{"title": f"{split} {n}", "body": f"text {n}", "label": n} for n in range(count)]
        write_rows(f"dataset/{split}.jsonl", rows)
    return f"hf:{tmp_path / 'dataset'}"


def read(source: str, **keys: object) -> Source:
    return read_source(DataConfig.model_validate({"source": source, **keys}), print)


def test_splits_of_a_dataset_are_parts(dataset: str) -> None:
    source = read(dataset, fields=["title", "body"])
    assert {part: len(texts) for part, texts in source.parts.items()} == {
        "train": 30,
        "validation": 4,
        "test": 3,
    }
    assert source.parts["train"][:2] == ["train 0\ntext 0", "train 1\ntext 1"]


def test_a_stream_gives_the_first_rows_of_the_whole(dataset: str) -> None:
    whole = read(dataset, fields=["body"])
    streamed = read(dataset, fields=["body"], streaming=True, max_documents=4)
    assert streamed.parts == {part: texts[:4] for part, texts in whole.parts.items()}
    assert any("at most 4 rows" in note for note in streamed.notes)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_field_that_is_not_there_lists_those_that_are(dataset: str, streaming: bool) -> None:
    with pytest.raises(DataError, match=r"'train'.*no field 'text'.*'title', 'body', 'label'"):
        read(dataset, streaming=streaming, max_documents=2)


def test_a_dataset_that_cannot_be_had_is_named_with_the_cause() -> None:
    with pytest.raises(DataError, match=r"hf:nobody/nothing: .*could not be loaded \(.+\); check"):
        read("hf:nobody/nothing")


def test_without_datasets_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"\[data\]"):
        read("hf:nobody/nothing")
