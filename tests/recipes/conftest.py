from __future__ import annotations

from pathlib import Path

import pytest
import torch

WORDS = ["in", "the", "beginning", "there", "was", "one", "file", "of", "words", "and", "no", "end"]


@pytest.fixture(autouse=True)
def _one_thread(_two_threads: None) -> None:
    """Models this small gain nothing from a second thread, and lose much on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that a run may write in, and a small text in it."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "text.txt"
    picked = [WORDS[number * number * 7 % 61 % len(WORDS)] for number in range(3000)]
    path.write_text(" ".join(picked), encoding="utf-8")
    return path
