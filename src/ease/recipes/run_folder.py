"""A run's folder: what lies in it, and how a run is found again.

runs/NAME/config.yaml      the resolved configuration
          metrics.jsonl    one line an evaluation
          checkpoints/     what --resume goes on from
          model/           the best weights and the tokenizer
          result.json      the figures; it is there when the run has ended
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch

from ease.errors import ConfigError, DataError, StorageError
from ease.recipes.run_config import RunConfig, load_config
from ease.storage import write_file, write_text, writing

RUNS = Path("runs")


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.metrics_file = path / "metrics.jsonl"
        self.state_file = path / "checkpoints" / "state.pt"
        self.model = path / "model"
        self.result_file = path / "result.json"

    @property
    def exists(self) -> bool:
        return self.config_file.is_file()

    @property
    def finished(self) -> bool:
        return self.result_file.is_file()

    def create(self, config: RunConfig) -> None:
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.config_file, config.as_yaml())

    def config(self) -> RunConfig:
        return load_config(self.config_file)

    def result(self) -> dict[str, Any]:
        try:
            result: dict[str, Any] = json.loads(self.result_file.read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"{self.result_file} cannot be read: {error}") from None
        return result

    def save_state(self, state: dict[str, Any]) -> None:
        def fill(beside: Path) -> None:
            try:
                torch.save(state, beside)
            except RuntimeError as error:  # torch's own word for a full disk
                raise StorageError(
                    f"could not write {self.state_file}; is the disk full? ({error})"
                ) from error

        write_file(self.state_file, fill)

    def load_state(self) -> dict[str, Any] | None:
        """The last checkpoint, or None where the run stopped before its first."""
        if not self.state_file.is_file():
            return None
        try:
            state: dict[str, Any] = torch.load(
                self.state_file, map_location="cpu", weights_only=True
            )
        except Exception as error:
            raise DataError(f"{self.state_file} is damaged; start the run afresh") from error
        return state


def choose_folder(config: RunConfig, out: Path | None, resume: bool) -> RunFolder:
    """Where a run goes: `out`, or runs/RECIPE, numbered where that is taken.

    With `resume`, an earlier run of the same configuration; where there is none, a new one.
    """
    if out is None:
        newest, free = _numbered(RUNS / config.recipe)
        if not resume or newest is None:
            return RunFolder(free)
        folder = RunFolder(newest)
    else:
        folder = RunFolder(out)
    if out is not None and out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file: give a folder")
    if folder.exists and not resume:
        raise ConfigError(
            f"{folder.path} holds a run: add --resume to go on, or choose another --out"
        )
    if not folder.exists and out is not None and out.is_dir() and any(out.iterdir()):
        raise ConfigError(f"--out {out} is not empty and holds no run: choose another folder")
    if folder.exists:
        _require_same(folder.config(), config, folder.path)
    return folder


def _numbered(base: Path) -> tuple[Path | None, Path]:
    """The newest of base, base-2, base-3, ..., and the first name that is free."""
    numbers = [1] if base.exists() else []
    if base.parent.is_dir():
        pattern = re.compile(re.escape(base.name) + r"-(\d+)")
        numbers += [int(m[1]) for p in base.parent.iterdir() if (m := pattern.fullmatch(p.name))]
    if not numbers:
        return None, base
    last = max(numbers)
    newest = base if last == 1 else base.with_name(f"{base.name}-{last}")
    return newest, base.with_name(f"{base.name}-{last + 1}")


def _require_same(saved: RunConfig, wanted: RunConfig, path: Path) -> None:
    """A resumed run keeps its configuration."""
    if saved == wanted:
        return
    left, right = _flat(saved.model_dump()), _flat(wanted.model_dump())
    key = next(key for key in left | right if left.get(key) != right.get(key))
    raise ConfigError(
        f"{path} was started with {key}={left.get(key)}, not {right.get(key)}: "
        "resume it with the same recipe and --set, or choose another --out"
    )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
