"""Evaluates a trained model: a run on one of its own splits, or any model on any text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import Tensor

from ease.data import (
    Batches,
    Blocks,
    DataConfig,
    SplitName,
    Tokenizer,
    load_corpus,
    load_tokenizer,
    text_blocks,
)
from ease.errors import ConfigError, DataError
from ease.evaluation import evaluate_exits
from ease.evaluation.result import model_result, protocol_result, split_result, versions
from ease.model import load_model
from ease.recipes.run_config import RunConfig
from ease.recipes.run_folder import RunFolder

BATCH_TOKENS = 8192
# Batches -> the same batches, with somebody who sees them go by.
Watch = Callable[[Batches], Iterable[tuple[Tensor, Tensor]]]


def evaluate_folder(
    folder: str | Path,
    data: str | Path | None = None,
    split: str = "test",
    seq_len: int | None = None,
    fields: Sequence[str] | None = None,
    device: torch.device | None = None,
    watch: Watch = lambda batches: batches,
) -> dict[str, Any]:
    """Every exit on every whole block of a text; returns what `ease evaluate --out` writes.

    `folder` is a run or a model folder. Without `data`, the text is the run's own split. Block
    length and fields are the run's unless they are given.

    >>> from ease import evaluate_folder
    >>> evaluate_folder("no/such/run")
    Traceback (most recent call last):
    ease.errors.DataError: no/such/run is not a folder: give a run or a model folder
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder: give a run or a model folder")
    run = RunFolder(folder)
    config = run.config() if run.exists else None
    if run.exists and not run.model.is_dir():
        raise DataError(f"{folder} has no model yet: finish the run with --resume")
    model_folder = run.model if run.exists else folder
    device = device or torch.device("cpu")
    model = load_model(model_folder, device)
    tokenizer = load_tokenizer(model_folder)
    length = seq_len or (config.data if config else DataConfig()).seq_len
    if data is not None:
        wanted = fields or (config.data if config else DataConfig()).fields
        blocks, described = _file_blocks(Path(data), tokenizer, length, wanted)
        name = "data"
    else:
        if config is None:
            raise ConfigError(f"{folder} is a model folder and has no data: give --data FILE")
        blocks, described = _own_blocks(run, config, split, length, tokenizer)
        name = split
    batches = Batches(blocks, max(1, BATCH_TOKENS // length))
    return {
        **({"recipe": config.recipe, "seed": config.seed} if config else {}),
        **_standing(config, data is not None, split),
        "data": described,
        "model": model_result(model),
        "seq_len": length,
        "splits": {name: split_result(evaluate_exits(model, watch(batches)))},
        "versions": versions(device),
    }


def _standing(config: RunConfig | None, own_text: bool, split: str) -> dict[str, Any]:
    """Whether the figures are held out, as far as it can be known."""
    if config is None:
        return {}
    standing = protocol_result(config.protocol)
    if own_text and standing["held_out"]:
        del standing["held_out"]  # nobody knows what the model has seen of this file
    elif split != "test" and standing["held_out"]:
        standing |= {"held_out": False, "note": f"{split} is not held out: training read it"}
    return standing


def _file_blocks(
    path: Path, tokenizer: Tokenizer, seq_len: int, fields: Sequence[str]
) -> tuple[Blocks, dict[str, Any]]:
    blocks, facts = text_blocks(path, tokenizer, seq_len, fields)
    return blocks, {
        "name": facts["path"],
        "hashes": {"data": facts["sha256"]},
        "tokens": {"data": facts["tokens"]},
    }


def _own_blocks(
    run: RunFolder, config: RunConfig, split: str, seq_len: int, tokenizer: Tokenizer
) -> tuple[Blocks, dict[str, Any]]:
    """A split of the run's own data, which must still be the text that the run was cut from."""
    if split not in get_args(SplitName):
        raise ConfigError(f"--split {split}: choose one of {', '.join(get_args(SplitName))}")
    settings = config.data.model_copy(update={"seq_len": seq_len})
    corpus = load_corpus(settings, config.protocol, tokenizer=tokenizer)
    name = cast("SplitName", split)
    blocks = corpus.splits.open(name, "report")
    trained_on = run.result()["data"]["hashes"]
    if trained_on != corpus.hashes:
        raise DataError(
            f"the text of {corpus.name} has changed since {run.path} was trained: its {split} "
            "may hold what the model has seen. Give --data FILE instead"
        )
    return blocks, {
        "name": corpus.name,
        "hashes": {name: corpus.hashes[name]},
        "tokens": {name: corpus.tokens[name]},
    }
