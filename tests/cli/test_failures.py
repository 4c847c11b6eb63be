"""A run that cannot go on: exit code 1, one line, and what was saved before stays."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ease import InterruptedRunError, save_model, train_recipe
from ease.errors import StorageError
from ease.model import load_model
from ease.recipes import RunFolder
from ease.storage import write_folder
from ease.training import Callback, Evaluation

from .commands import Ease, settings


@contextmanager
def file_size_limit(largest: int) -> Iterator[None]:
    """No file may grow beyond this: to the writer it is a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class StopAfterEvaluations(Callback):
    def __init__(self, count: int) -> None:
        self.left = count

    def on_evaluation(self, evaluation: Evaluation) -> None:
        self.left -= 1

    def on_step(self, step: int, loss: float) -> None:
        if self.left == 0:
            raise InterruptedRunError("stopped")


@pytest.mark.parametrize("rate", ["1e30", "3.0e+38"])
def test_a_loss_that_is_not_finite_names_step_and_batch(
    ease: Ease, source: Path, rate: str
) -> None:
    tiny = settings(source, optim__lr=rate, stop__max_steps=20)
    answer = ease("train", "quickstart", *tiny, "--out", "run")
    assert (answer.code, answer.out) == (1, "")
    where = "at step 2 of phase deep-supervision, epoch 1, batch 2; the weights were not touched"
    assert where in answer.complaint
    assert "Lower the learning rate, or look at that batch" in answer.complaint
    assert not Path("run/result.json").exists()
    assert not Path("run/model").exists()


@pytest.mark.parametrize("file", ["config.yaml", "metrics.jsonl", "checkpoints/state.pt"])
def test_a_file_that_cannot_be_written_is_named_and_the_checkpoint_survives(
    ease: Ease, source: Path, file: str
) -> None:
    steps = settings(source, stop__max_steps=24, stop__evaluate_every=4)
    run = RunFolder(Path("run"))
    with pytest.raises(InterruptedRunError):
        train_recipe("quickstart", steps[1::2], run.path, watchers=[StopAfterEvaluations(4)])
    checkpoint = run.state_file.read_bytes()
    metrics = run.metrics_file.stat().st_size
    assert run.config_file.stat().st_size < metrics < len(checkpoint) // 2
    limits = {"config.yaml": 10, "metrics.jsonl": metrics + 10, "checkpoints/state.pt": metrics * 2}
    with file_size_limit(limits[file]):
        answer = ease("train", "quickstart", *steps, "--out", "run", "--resume")
    assert (answer.code, answer.out) == (1, "")
    assert f"could not write run/{file}" in answer.complaint
    assert run.state_file.read_bytes() == checkpoint
    assert not list(run.path.rglob("*.part"))

    answer = ease("train", "quickstart", *steps, "--out", "run", "--resume")
    whole = ease("train", "quickstart", *steps, "--out", "whole")
    assert (answer.code, whole.code) == (0, 0)
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes()


def test_a_model_that_cannot_be_written_leaves_the_old_one(trained: Path, tmp_path: Path) -> None:
    model = load_model(trained / "model")
    folder = tmp_path / "model"
    write_folder(folder, lambda path: save_model(model, path))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with (
        file_size_limit(1000),
        pytest.raises(StorageError, match=r"could not write \S*model"),
    ):
        write_folder(folder, lambda path: save_model(model, path))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_a_run_below_a_file_names_the_folder(ease: Ease, source: Path) -> None:
    answer = ease("train", "quickstart", *settings(source), "--out", source / "run")
    assert (answer.code, answer.out) == (1, "")
    assert f"could not write {source}/run" in answer.complaint
