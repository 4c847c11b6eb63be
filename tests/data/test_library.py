from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from ease.data.library import LARGEST, read_library
from ease.errors import DataError


def test_the_corpus_fills_its_cap_and_is_dealt_90_5_5() -> None:
    parts = read_library()
    sizes = {part: sum(len(t.encode()) for t in texts) for part, texts in parts.items()}
    total = sum(sizes.values())
    assert 0.9 * LARGEST < total <= LARGEST
    counts = [len(parts[part]) for part in ("train", "validation", "test")]
    assert 0.85 < counts[0] / sum(counts) < 0.95
    assert read_library() == parts


def test_tests_and_installed_packages_are_left_out() -> None:
    root = Path(sysconfig.get_path("stdlib"))
    texts = {text for texts in read_library(largest=10**9).values() for text in texts}
    assert (root / "argparse.py").read_bytes().decode() in texts
    assert (root / "unittest" / "case.py").read_bytes().decode() in texts
    # What is not part of the library on this machine is not there to be found in the corpus.
    for outside in ("test/test_argparse.py", "site-packages/pip/__init__.py"):
        path = root / outside
        assert not path.exists() or path.read_bytes().decode() not in texts


def library(root: Path, files: int) -> Path:
    for number in range(files):
        path = root / f"package{number % 7}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"number = {number}\n")
    return root


def test_a_file_keeps_its_part_wherever_the_library_stands(tmp_path: Path) -> None:
    here, there = library(tmp_path / "here", 200), library(tmp_path / "there", 200)
    assert read_library(here) == read_library(there)


def test_a_cap_takes_from_every_part(tmp_path: Path) -> None:
    root = library(tmp_path, 400)
    everything, half = read_library(root), read_library(root, largest=2700)
    for part, texts in half.items():
        assert texts == everything[part][: len(texts)]
        assert 0.2 < len(texts) / len(everything[part]) < 0.8


def test_what_is_no_text_or_no_source_of_the_library_is_skipped(tmp_path: Path) -> None:
    root = library(tmp_path, 200)
    expected = read_library(root)
    (root / "latin.py").write_bytes(b"# caf\xe9")
    (root / "empty.py").write_bytes(b"\n")
    for folder in ("test", "site-packages", "package1/tests", "__pycache__", "ensurepip"):
        (root / folder).mkdir(parents=True)
        (root / folder / "outside.py").write_text("outside = True")
    assert read_library(root) == expected


def test_a_python_without_its_source_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not there; set data.source"):
        read_library(tmp_path)
