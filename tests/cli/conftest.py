from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from ease import train_recipe
from ease.cli.app import main

from .commands import Answer, Ease, settings, text


@pytest.fixture(scope="module", autouse=True)
def _one_thread_for_what_tests_share() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _one_thread(_two_threads: None) -> None:
    """Models this small gain nothing from a second thread, and lose much on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(text(), encoding="utf-8")
    return path


@pytest.fixture
def ease(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Ease:
    """Run a command in this process, in the test's own folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["ease", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, out, err)

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a text beside it; tests read it and change nothing."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(text(), encoding="utf-8")
    run, _ = train_recipe(
        "quickstart", settings(folder / "text.txt", stop__max_steps=4)[1::2], folder / "run"
    )
    return run
