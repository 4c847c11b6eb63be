from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ease import ConfigError, DataError, RunConfig, load_recipe
from ease.recipes import RunFolder, choose_folder


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.chdir(tmp_path)
    return load_recipe("standard")


def test_the_first_free_number_follows_the_largest(config: RunConfig) -> None:
    taken = ["standard", "standard-2", "standard-9", "standard-x", "standard-9-old", "other-50"]
    for name in taken:
        RunFolder(Path("runs", name)).create(config)
    assert choose_folder(config, None, resume=False).path == Path("runs/standard-10")
    assert choose_folder(config, None, resume=True).path == Path("runs/standard-9")


def test_a_number_is_free_where_the_first_run_was_deleted(config: RunConfig) -> None:
    RunFolder(Path("runs/standard-2")).create(config)
    assert choose_folder(config, None, resume=False).path == Path("runs/standard-3")
    assert choose_folder(config, None, resume=True).path == Path("runs/standard-2")


def test_a_run_that_was_only_created_can_be_resumed(config: RunConfig) -> None:
    RunFolder(Path("run")).create(config)
    folder = choose_folder(config, Path("run"), resume=True)
    assert (folder.exists, folder.finished, folder.load_state()) == (True, False, None)
    with pytest.raises(ConfigError, match="run holds a run: add --resume"):
        choose_folder(config, Path("run"), resume=False)


def test_a_broken_result_is_named(config: RunConfig) -> None:
    folder = RunFolder(Path("run"))
    folder.create(config)
    folder.result_file.write_text("{")
    with pytest.raises(DataError, match=r"run/result\.json cannot be read"):
        folder.result()


def test_a_broken_configuration_is_named(config: RunConfig) -> None:
    folder = RunFolder(Path("run"))
    folder.create(config)
    folder.config_file.write_text("seed: [")
    with pytest.raises(ConfigError, match=r"run/config\.yaml: not valid YAML"):
        choose_folder(config, Path("run"), resume=True)


@given(saved=st.integers(0, 9), wanted=st.integers(0, 9))
def test_a_run_is_resumed_with_its_own_settings_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, saved: int, wanted: int
) -> None:
    folder = tmp_path_factory.mktemp("runs") / "run"
    RunFolder(folder).create(load_recipe("standard", [f"seed={saved}"]))
    config = load_recipe("standard", [f"seed={wanted}"])
    if saved == wanted:
        assert choose_folder(config, folder, resume=True).path == folder
    else:
        with pytest.raises(ConfigError, match=f"started with seed={saved}, not {wanted}"):
            choose_folder(config, folder, resume=True)
