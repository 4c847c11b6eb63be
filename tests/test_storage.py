from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ease import StorageError
from ease.storage import write_file, write_folder, write_json, write_text

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def half_a_file(error: BaseException) -> Callable[[Path], None]:
    def fill(path: Path) -> None:
        path.write_text("half")
        raise error

    return fill


def half_a_folder(error: BaseException) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        (folder / "first").write_text("half")
        raise error

    return fill


def one_file(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "file").write_text(text) and None


def test_a_file_is_written_with_the_folders_above_it_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "text"
    for text in ("first", "second"):
        write_text(path, text)
        assert path.read_text() == text
    assert names(path.parent) == ["text"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), FULL])
def test_a_file_that_fails_in_the_middle_stays_as_it_was(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "text"
    write_text(path, "old")
    wanted = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(wanted):
        write_file(path, half_a_file(error))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["text"]


def test_nobody_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "text"
    write_text(path, "old")
    seen = []

    def fill(beside: Path) -> None:
        beside.write_text("new")
        seen.append(path.read_text())

    write_file(path, fill)
    assert seen == ["old"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_a_full_disk_is_a_storage_error_that_names_the_path(
    tmp_path: Path, write: Callable[[Path, Callable[[Path], None]], None]
) -> None:
    def fill(path: Path) -> None:
        raise FULL

    with pytest.raises(StorageError, match=f"could not write {tmp_path}/it: No space left"):
        write(tmp_path / "it", fill)
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_really_full_disk_is_one_too(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        with Path("/dev/full").open("w") as file:
            file.write("too much")

    with pytest.raises(StorageError, match=f"could not write {tmp_path}/it: No space left"):
        write_folder(tmp_path / "it", fill)
    assert names(tmp_path) == []


def test_a_path_below_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file/text"):
        write_text(tmp_path / "file" / "text", "x")
    with pytest.raises(StorageError, match="file/folder"):
        write_folder(tmp_path / "file" / "folder", one_file("x"))


def test_a_folder_replaces_the_one_before_it_wholly(tmp_path: Path) -> None:
    path = tmp_path / "a" / "folder"
    write_folder(path, lambda folder: (folder / "other").write_text("old") and None)
    write_folder(path, one_file("new"))
    assert names(path) == ["file"]
    assert (path / "file").read_text() == "new"
    assert names(path.parent) == ["folder"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), FULL])
def test_a_folder_that_fails_in_the_middle_stays_as_it_was(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "folder"
    write_folder(path, one_file("old"))
    wanted = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(wanted):
        write_folder(path, half_a_folder(error))
    assert names(path) == ["file"]
    assert (path / "file").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_the_old_folder_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    write_folder(path, one_file("old"))
    seen = []

    def fill(folder: Path) -> None:
        (folder / "file").write_text("new")
        seen.append((path / "file").read_text())

    write_folder(path, fill)
    assert seen == ["old"]
    assert (path / "file").read_text() == "new"


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    write_folder(path, one_file("old"))
    replace = Path.replace

    def refuse_the_new(source: Path, target: Path) -> Path:
        if target == path and source.name.endswith(".part"):
            raise FULL
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", refuse_the_new)
    with pytest.raises(StorageError, match="No space left"):
        write_folder(path, one_file("new"))
    assert (path / "file").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_json_is_readable_and_has_no_nan(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"é": [1, None]})
    assert path.read_text(encoding="utf-8") == '{\n  "é": [\n    1,\n    null\n  ]\n}\n'
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            write_json(path, value)
    assert names(tmp_path) == ["value.json"]
    assert "é" in path.read_text(encoding="utf-8")


def test_a_folder_may_hold_folders(tmp_path: Path) -> None:
    def fill(folder: Path) -> None:
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_text("x")

    write_folder(tmp_path / "made", fill)
    assert (tmp_path / "made" / "inside" / "file").read_text() == "x"
