"""The only training loop: it runs one Phase, evaluates, stops early, and restores the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ease.data import Batch, require_reader
from ease.errors import DataError, NonFiniteError
from ease.evaluation import Figures
from ease.model import StagedLM
from ease.training.callbacks import Callback, Evaluation
from ease.training.feed import Feed
from ease.training.optim import build_optimizer, learning_rate_factor, set_learning_rate
from ease.training.phase import Phase
from ease.training.step import build_step

Judge = Callable[[], Mapping[int, Figures]]


@dataclass
class Progress:
    """All that a resumed phase needs besides weights, optimiser and data position."""

    step: int = 0
    epoch: int = 0  # whole epochs behind us
    epoch_steps: int = 0  # steps into the present one
    loss_sum: float = 0.0  # since the last evaluation
    loss_steps: int = 0
    since_best: int = 0
    finished: bool = False
    stopped_early: bool = False


@dataclass(frozen=True)
class PhaseReport:
    """How a phase went. The model holds the weights of `best`."""

    evaluations: list[Evaluation]
    best: Evaluation
    steps: int
    stopped_early: bool


class PhaseTrainer:
    """Runs one phase on one model.

    `judge` scores the model on held-out data; its deepest exit's loss decides what is best. The
    optimiser is built from the phase unless one is given.
    """

    def __init__(
        self,
        model: StagedLM,
        phase: Phase,
        train: Iterable[Batch],
        judge: Judge,
        callbacks: Sequence[Callback] = (),
        optimizer: Optimizer | None = None,
    ) -> None:
        require_reader(train, "training")
        self.model = model
        self.phase = phase
        self.feed = Feed(train, phase.optim.accumulate)
        self.judge = judge
        self.callbacks = callbacks
        self.scheduled = optimizer is None
        self.optimizer = optimizer or build_optimizer(
            model, phase.optim.lr, phase.optim.weight_decay, phase.lr_scales
        )
        device = model.embedding.weight.device
        self.step = build_step(
            model,
            phase.objective,
            self.optimizer,
            phase.optim.grad_clip,
            phase.optim.autocast_dtype(device),
        )
        self.progress = Progress()
        self.evaluations: list[Evaluation] = []
        self.best: Evaluation | None = None
        self.best_weights: dict[str, Tensor] = {}
        self.total_steps: int | None = phase.stop.max_steps
        if isinstance(train, Sized):
            steps_per_epoch = -(-len(train) // phase.optim.accumulate)
            self.total_steps = phase.stop.total_steps(steps_per_epoch)

    def run(self) -> PhaseReport:
        """Train until the phase ends, then put the best weights back."""
        for callback in self.callbacks:
            callback.on_phase_start(self.phase.name, self.progress.step, self.total_steps)
        while not self.progress.finished:
            self.model.train()
            self._train_until_evaluation()
            if self.progress.loss_steps:
                self._evaluate()
            else:
                self._end_without_batches()
        if self.best is None:
            raise NonFiniteError(
                f"{self.phase.name}: the held-out loss was never finite; lower optim.lr"
            )
        self._restore_best()
        for callback in self.callbacks:
            callback.on_phase_end(self.best, self.progress.stopped_early)
        return PhaseReport(
            self.evaluations, self.best, self.progress.step, self.progress.stopped_early
        )

    def _train_until_evaluation(self) -> None:
        progress, stop = self.progress, self.phase.stop
        if progress.loss_steps and self._evaluation_is_due():
            return  # resumed between a step and its evaluation
        while progress.epoch < stop.max_epochs:
            while group := self.feed.next_group():
                self._take(group)
                if self._evaluation_is_due():
                    return
            progress.epoch, progress.epoch_steps = progress.epoch + 1, 0
            if stop.evaluate_every is None:
                return

    def _take(self, group: list[Batch]) -> None:
        progress = self.progress
        if self.scheduled:
            factor = learning_rate_factor(self.phase.optim, progress.step, self.total_steps)
            set_learning_rate(self.optimizer, self.phase.optim.lr * factor)
        try:
            loss = self.step(group)
        except NonFiniteError as error:
            first, last = self.feed.taken - len(group) + 1, self.feed.taken
            which = f"batch {last}" if first == last else f"batches {first} to {last}"
            raise error.at(
                f"step {progress.step + 1} of phase {self.phase.name}, "
                f"epoch {progress.epoch + 1}, {which}"
            ) from None
        progress.step += 1
        progress.epoch_steps += 1
        progress.loss_sum += loss
        progress.loss_steps += 1
        for callback in self.callbacks:
            callback.on_step(progress.step, loss)

    def _evaluation_is_due(self) -> bool:
        stop, step = self.phase.stop, self.progress.step
        if step == stop.max_steps:
            return True
        return stop.evaluate_every is not None and step % stop.evaluate_every == 0

    def _end_without_batches(self) -> None:
        if self.progress.step == 0:
            raise DataError(f"{self.phase.name}: the training data gave not one batch")
        if self.progress.epoch < self.phase.stop.max_epochs:
            raise DataError(
                f"{self.phase.name}: the training batches ran out after one epoch; "
                "pass a list or another iterable that can be read again, not a generator"
            )
        self.progress.finished = True

    def _evaluate(self) -> None:
        progress, stop = self.progress, self.phase.stop
        exits = dict(self.judge())
        loss = exits[max(exits)].loss
        improved = loss < (self.best.judged.loss if self.best else float("inf"))
        progress.since_best = 0 if improved else progress.since_best + 1
        evaluation = Evaluation(
            phase=self.phase.name,
            epoch=progress.epoch + (progress.epoch_steps > 0),
            step=progress.step,
            train_loss=progress.loss_sum / progress.loss_steps,
            exits=exits,
            improved=improved,
            since_best=progress.since_best,
        )
        self.evaluations.append(evaluation)
        if improved:
            self.best = evaluation
            self.best_weights = self._weights()
        progress.loss_sum, progress.loss_steps = 0.0, 0
        progress.stopped_early = stop.patience is not None and progress.since_best >= stop.patience
        progress.finished = (
            progress.stopped_early
            or progress.epoch >= stop.max_epochs
            or progress.step == stop.max_steps
        )
        for callback in self.callbacks:
            callback.on_evaluation(evaluation)

    def _weights(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}

    def _restore_best(self) -> None:
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(self.best_weights[name])

    def state_dict(self) -> dict[str, Any]:
        """Everything that a later `load_state_dict` needs to go on as if never interrupted."""
        return {
            "phase": self.phase.name,
            "progress": asdict(self.progress),
            "evaluations": [asdict(evaluation) for evaluation in self.evaluations],
            "weights": self._weights(),
            "best_weights": self.best_weights,
            "optimizer": self.optimizer.state_dict(),
            "feed": self.feed.state_dict(),
            "rng": torch.get_rng_state(),
            "gpu_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.progress = Progress(**state["progress"])
        self.evaluations = [_unpack(record) for record in state["evaluations"]]
        improved = [evaluation for evaluation in self.evaluations if evaluation.improved]
        self.best = improved[-1] if improved else None
        self.best_weights = state["best_weights"]
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.feed.load_state_dict(state["feed"])
        torch.set_rng_state(state["rng"])
        if state["gpu_rng"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["gpu_rng"])


def _unpack(record: dict[str, Any]) -> Evaluation:
    exits = {layer: Figures(**figures) for layer, figures in record["exits"].items()}
    return Evaluation(**{**record, "exits": exits})
