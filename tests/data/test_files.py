from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ease.data.files import read_documents
from ease.errors import DataError, MissingExtraError

TEXT = st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip)
in_one_folder = settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Rows = Callable[[str, Sequence[object]], Path]


@in_one_folder
@given(text=TEXT, suffix=st.sampled_from(["", ".gz", ".xz"]))
def test_a_text_file_is_one_document_kept_to_the_letter(
    tmp_path: Path, text: str, suffix: str
) -> None:
    path = tmp_path / f"a.txt{suffix}"
    data = b"\xef\xbb\xbf" + text.encode()
    squeezed = {"": data, ".gz": gzip.compress(data), ".xz": lzma.compress(data)}
    path.write_bytes(squeezed[suffix])
    assert read_documents(path, ["text"]) == [text]


@in_one_folder
@given(texts=st.lists(TEXT, min_size=1))
def test_each_row_is_one_document_in_jsonl_and_parquet_alike(
    tmp_path: Path, texts: list[str]
) -> None:
    jsonl, parquet = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    # Unicode has line separators that are no ends of a JSON line.
    lines = (json.dumps({"text": text}, ensure_ascii=False) + "\r\n" for text in texts)
    jsonl.write_bytes("".join(lines).encode())
    pq.write_table(pa.table({"text": texts}), parquet)
    assert read_documents(jsonl, ["text"]) == texts
    assert read_documents(parquet, ["text"]) == texts


def test_an_empty_field_leaves_its_line(write_rows: Rows) -> None:
    path = write_rows("a.jsonl", [{"question": "Why?", "input": "", "answer": "So."}])
    assert read_documents(path, ["question", "input", "answer"]) == ["Why?\n\nSo."]


def test_rows_and_lines_without_text_are_no_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": ""}\n{"text": " \\n"}\n{"text": "b"}\n')
    assert read_documents(path, ["text"]) == ["a", "b"]


def test_a_parquet_file_may_be_compressed_once_more(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert read_documents(path, ["text"]) == ["a"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.pdf", b"text", r"a\.pdf: unknown kind of file: ease reads \.txt"),
        ("a.gz", b"text", "unknown kind of file"),
        ("a.txt", b"", "a.txt is empty"),
        ("a.txt", b"\xef\xbb\xbf \n", "a.txt is empty"),
        ("a.jsonl", b"\n\n", "a.jsonl is empty"),
        ("a.jsonl", b'{"text": ""}\n', "a.jsonl is empty"),
        ("a.txt", b"good\xffbad", "not UTF-8 at byte 4"),
        ("a.txt", b"\xef\xbb\xbfgood\xff", "not UTF-8 at byte 7"),
        ("a.txt", "text".encode("utf-16"), "not UTF-8 at byte 0"),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', "line 2: not valid JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1: not valid JSON"),
        ("a.jsonl", b'["text"]\n', "line 1: a list, not a JSON object"),
        ("a.jsonl", b'{"text": "a"}\n{"b": "", "c": 1}', "line 2: no field 'text'.*'b', 'c'"),
        ("a.jsonl", b'{"text": null}\n', "line 1: field 'text' is of type NoneType, not text"),
        ("a.jsonl", b'{"text": "\\ud800"}\n', "line 1: half a surrogate pair"),
        ("a.txt.gz", gzip.compress(b"text" * 99)[:-9], "not a whole .gz file"),
        ("a.txt.gz", b"text", "not a whole .gz file"),
        ("a.txt.xz", lzma.compress(b"text" * 99)[:-9], "not a whole .xz file"),
        ("a.txt.xz", b"text", "not a whole .xz file"),
        ("a.parquet", b"text", "not a whole parquet file"),
    ],
)
def test_a_broken_file_is_one_clear_error(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_documents(tmp_path / name, ["text"])
    assert str(tmp_path / name) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.txt: there is no such file"):
        read_documents(tmp_path / "gone.txt", ["text"])


def test_a_missing_parquet_column_lists_those_there(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["a"], "label": [1]}), path)
    with pytest.raises(DataError, match=r"no field 'text'.*'body', 'label'"):
        read_documents(path, ["text"])
    with pytest.raises(DataError, match="row 1: field 'label' is of type int"):
        read_documents(path, ["label"])


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading parquet.*\[data\]"):
        read_documents(tmp_path / "a.parquet", ["text"])
