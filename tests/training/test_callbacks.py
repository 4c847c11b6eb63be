from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from ease import Figures, StopConfig, StorageError
from ease.training import Evaluation, MetricsFile
from training.phases import phase_trainer


def look(step: int, loss: float = 1.0) -> Evaluation:
    exits = {1: Figures(9.0, 0.0, 4), 2: Figures(loss, 0.5, 4)}
    return Evaluation("small", 1, step, 2.0, exits, improved=True, since_best=0)


def steps(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_every_evaluation_is_a_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = MetricsFile(path)
    stop = StopConfig(max_epochs=2, patience=None)
    report = phase_trainer(callbacks=[metrics], stop=stop).run()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert metrics.lines == len(lines) == 2
    for line, evaluation in zip(lines, report.evaluations, strict=True):
        assert (line["phase"], line["epoch"], line["step"]) == (
            "small",
            evaluation.epoch,
            evaluation.step,
        )
        assert line["train_loss"] == evaluation.train_loss
        assert line["exits"]["2"]["ppl"] == evaluation.judged.ppl
        assert line["exits"]["1"]["tokens"] == 30


def test_infinite_figures_are_null(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.on_evaluation(look(1, math.inf))
    figures = json.loads(metrics.path.read_text())["exits"]["2"]
    assert (figures["loss"], figures["ppl"]) == (None, None)


@pytest.mark.parametrize("kept", [0, 2, 3])
def test_rewinding_forgets_what_came_later_and_goes_on_from_there(
    tmp_path: Path, kept: int
) -> None:
    first = MetricsFile(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        first.on_evaluation(look(step))
    resumed = MetricsFile(first.path)
    resumed.rewind(kept)
    assert steps(first.path) == [1, 2, 3][:kept]
    resumed.on_evaluation(look(9))
    assert steps(first.path) == [*[1, 2, 3][:kept], 9]
    assert resumed.lines == kept + 1


def test_rewinding_what_was_never_written_is_nothing(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.rewind(0)
    assert not metrics.path.exists()
    assert metrics.lines == 0


def test_a_file_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "missing" / "metrics.jsonl")
    with pytest.raises(StorageError, match=r"could not write .*metrics\.jsonl"):
        metrics.on_evaluation(look(1))


def test_the_deepest_exit_judges() -> None:
    assert look(1, 3.0).judged.loss == 3.0
