from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from ease import (
    Batches,
    Callback,
    DataError,
    Figures,
    LayerLosses,
    LeakError,
    NonFiniteError,
    OptimConfig,
    Phase,
    PhaseTrainer,
    StagedLM,
    StopConfig,
    evaluate_exits,
)
from ease.training import Evaluation
from model.tiny import random_batches, tiny_model
from training.phases import (
    HELD_OUT,
    Watcher,
    blocks,
    phase_trainer,
    same_bits,
    shuffled,
    weights_of,
)


class Diary(Callback):
    """Everything that a callback is told, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_phase_start(self, phase: str, step: int, total_steps: int | None) -> None:
        self.lines.append(f"start {phase} {step} {total_steps}")

    def on_step(self, step: int, loss: float) -> None:
        self.lines.append(f"step {step}")

    def on_evaluation(self, evaluation: Evaluation) -> None:
        self.lines.append(f"evaluation {evaluation.epoch} {evaluation.step}")

    def on_phase_end(self, best: Evaluation, stopped_early: bool) -> None:
        self.lines.append(f"end {best.step} {stopped_early}")


def judged_by(
    losses: list[float], **stop: int | None
) -> tuple[PhaseTrainer, list[dict[str, object]]]:
    """A phase whose held-out losses are these, one an evaluation, and the weights at each."""
    model, weights = tiny_model(), []
    coming = iter(losses)

    def judge() -> Mapping[int, Figures]:
        weights.append(weights_of(model))
        # The deepest exit decides, whatever stands at the others.
        return {1: Figures(-99.0, 0.0, 1), 2: Figures(next(coming), 0.5, 1)}

    phase = Phase("judged", LayerLosses({2: 1.0}), OptimConfig(lr=0.05), StopConfig(**stop))
    return PhaseTrainer(model, phase, shuffled(), judge), weights


@pytest.mark.parametrize(
    ("losses", "patience", "best", "epochs", "early"),
    [
        ([3.0, 2.0, 1.0, 0.5], 1, 4, 4, False),
        ([3.0, 3.0, 1.0, 0.5], 1, 1, 2, True),
        ([3.0, 2.0, 2.5, 2.6], 2, 2, 4, True),
        ([3.0, 4.0, 2.0, 2.5], 2, 3, 4, False),
        ([3.0, 4.0, 5.0, 6.0], None, 1, 4, False),
        ([math.nan, 4.0, 5.0, 6.0], 2, 2, 4, True),
        ([math.inf, 4.0, 3.0, math.nan], 3, 3, 4, False),
    ],
)
def test_patience_ends_a_phase_and_the_best_weights_come_back(
    losses: list[float], patience: int | None, best: int, epochs: int, early: bool
) -> None:
    trainer, weights = judged_by(losses, max_epochs=4, patience=patience)
    report = trainer.run()
    assert (report.best.epoch, len(report.evaluations)) == (best, epochs)
    assert report.stopped_early == early
    assert report.best.improved
    assert same_bits(weights_of(trainer.model), weights[best - 1])
    assert all(not same_bits(weights[i], weights[i + 1]) for i in range(epochs - 1))


def test_a_held_out_loss_that_is_never_finite_is_an_error() -> None:
    trainer, _ = judged_by([math.nan] * 3, max_epochs=3, patience=None)
    with pytest.raises(NonFiniteError, match="held-out loss was never finite"):
        trainer.run()


@pytest.mark.parametrize(
    ("stop", "looks"),
    [
        ({"max_epochs": 2}, [(1, 6), (2, 12)]),
        ({"max_epochs": 9, "max_steps": 8}, [(1, 6), (2, 8)]),
        ({"max_epochs": 9, "max_steps": 6}, [(1, 6)]),
        ({"max_epochs": 2, "evaluate_every": 4}, [(1, 4), (2, 8), (2, 12)]),
        ({"max_epochs": 2, "evaluate_every": 5}, [(1, 5), (2, 10), (2, 12)]),
        ({"max_epochs": 1, "evaluate_every": 100}, [(1, 6)]),
        (
            {"max_epochs": 9, "max_steps": 10, "evaluate_every": 3},
            [(1, 3), (1, 6), (2, 9), (2, 10)],
        ),
    ],
)
def test_when_a_phase_is_evaluated_and_ends(
    stop: dict[str, int], looks: list[tuple[int, int]]
) -> None:
    trainer = phase_trainer(stop=StopConfig(**stop, patience=None))
    report = trainer.run()
    assert [(look.epoch, look.step) for look in report.evaluations] == looks
    assert report.steps == looks[-1][1]
    assert trainer.total_steps == report.steps


def test_callbacks_hear_everything_in_order_and_each_before_the_next() -> None:
    first, second = Diary(), Diary()
    second.lines = first.lines
    stop = StopConfig(max_epochs=1, evaluate_every=4, patience=None)
    report = phase_trainer(stop=stop, callbacks=[first, second]).run()
    wanted = ["start small 0 6", "step 1", "step 2", "step 3", "step 4", "evaluation 1 4"]
    wanted += ["step 5", "step 6", "evaluation 1 6", f"end {report.best.step} False"]
    assert first.lines == [line for line in wanted for _ in range(2)]


def test_the_train_loss_is_the_mean_since_the_last_evaluation() -> None:
    losses: list[float] = []
    watcher = Watcher(lambda step, loss: losses.append(loss))
    stop = StopConfig(max_epochs=1, evaluate_every=4, patience=None)
    report = phase_trainer(stop=stop, callbacks=[watcher]).run()
    found = [look.train_loss for look in report.evaluations]
    assert found == pytest.approx([sum(losses[:4]) / 4, sum(losses[4:]) / 2])


def test_the_reported_figures_are_those_of_the_weights_that_come_back() -> None:
    trainer = phase_trainer()
    report = trainer.run()
    assert report.best.exits == evaluate_exits(trainer.model, HELD_OUT)
    assert report.best.judged == report.best.exits[2]


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not() -> None:
    runs = []
    for seed in (4, 4, 5):
        model = tiny_model(dropout=0.3)
        torch.manual_seed(seed)
        phase_trainer(model).run()
        runs.append(weights_of(model))
    assert same_bits(runs[0], runs[1])
    assert not same_bits(runs[0], runs[2])


def test_the_schedule_sets_the_rate_of_each_step() -> None:
    rates: list[float] = []
    trainer = phase_trainer(
        optim=OptimConfig(lr=0.01, warmup_steps=3, schedule="cosine"),
        stop=StopConfig(max_epochs=2, patience=None),
        callbacks=[Watcher(lambda *_: rates.append(trainer.optimizer.param_groups[0]["lr"]))],
    )
    trainer.run()
    assert rates[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert 0.001 < rates[-1] < 0.0015


def test_an_optimiser_of_ones_own_keeps_its_rate() -> None:
    model = tiny_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    phase_trainer(model, optimizer=optimizer, optim=OptimConfig(warmup_steps=5)).run()
    assert optimizer.param_groups[0]["lr"] == 0.125


def test_a_generator_can_be_read_for_one_epoch_only() -> None:
    stop = StopConfig(max_epochs=1)
    assert phase_trainer(train=iter(random_batches(2)), stop=stop).run().steps == 2
    with pytest.raises(DataError, match=r"pass a list or another iterable .* not a generator"):
        phase_trainer(train=iter(random_batches(2))).run()
    with pytest.raises(DataError, match="small: the training data gave not one batch"):
        phase_trainer(train=[]).run()


@pytest.mark.parametrize("split", ["test", "gate", "selection", "calibration"])
def test_training_reads_no_split_but_train(split: str) -> None:
    with pytest.raises(LeakError, match=f"'training' may not read '{split}'"):
        phase_trainer(train=Batches(blocks(split), 2))


def test_an_evaluation_within_an_epoch_does_not_start_a_list_anew() -> None:
    batches, seen = random_batches(5), []

    def objective(model: StagedLM, x: Tensor, y: Tensor) -> Tensor:
        seen.append(next(i for i, batch in enumerate(batches) if batch[0] is x))
        assert len(seen) <= 10, "two epochs of five batches are long over"
        return LayerLosses({2: 1.0})(model, x, y)

    stop = StopConfig(max_epochs=2, evaluate_every=2, patience=None)
    phase_trainer(train=batches, objective=objective, stop=stop).run()  # type: ignore[arg-type]
    assert seen == [0, 1, 2, 3, 4] * 2
