"""The specification's training framework: two options, the stages and the routing threshold.

`Trainer` is a thin face: it describes one Phase and lets `PhaseTrainer` run it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.optim import Optimizer

from ease.data import Batch, require_reader, require_tokens
from ease.errors import ConfigError, DataError, NonFiniteError
from ease.evaluation import Figures, evaluate_exits, evaluate_routed, perplexity
from ease.exits import SoftmaxConfidence
from ease.model import ClassicTransformer, StagedLM, staged
from ease.settings import checked
from ease.training.callbacks import Callback, Evaluation
from ease.training.losses import LayerLosses
from ease.training.optim import OptimConfig, build_optimizer
from ease.training.phase import Phase, StopConfig
from ease.training.step import build_step
from ease.training.trainer import PhaseTrainer

Model = ClassicTransformer | StagedLM


@dataclass(frozen=True)
class StageConfig:
    """Layers `a` to `b`, counted from 1, with a loss of `loss_weight` on the output of `b`.

    >>> from ease import StageConfig
    >>> StageConfig(layers=(1, 2), loss_weight=0.7)
    StageConfig(layers=(1, 2), loss_weight=0.7)
    """

    layers: tuple[int, int]
    loss_weight: float = 1.0

    def __post_init__(self) -> None:
        try:
            first, last = map(operator.index, self.layers)
        except (TypeError, ValueError):
            raise ConfigError(
                f"layers={self.layers!r}: give two whole numbers, (first, last)"
            ) from None
        if not 1 <= first <= last:
            raise ConfigError(
                f"layers={self.layers!r}: layers are counted from 1, and first <= last"
            )


@dataclass(frozen=True)
class TrainingConfig:
    """Which layers carry a loss, and which tokens may leave early.

    `stages` and `layer_weights` are two spellings of the same thing; give one. Routing matters
    only in evaluation: with `routing_threshold` above 0, a token whose confidence at `exit_layer`
    is at least the threshold is read there.

    >>> from ease import StageConfig, TrainingConfig
    >>> TrainingConfig(stages=[StageConfig((1, 2), 0.7), StageConfig((3, 3), 0.3)]).loss_weights
    {2: 0.7, 3: 0.3}
    """

    stages: Sequence[StageConfig] | None = None
    layer_weights: Mapping[int, float] | None = None
    routing_threshold: float = 0.0
    exit_layer: int | None = None
    layer_lr_scales: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.stages is not None and self.layer_weights is not None:
            raise ConfigError("stages and layer_weights say the same thing: give only one of them")
        if not self.stages and not self.layer_weights:
            raise ConfigError(
                "give stages=[StageConfig(...), ...] or layer_weights={layer: weight}"
            )
        end = 0
        for stage in self.stages or ():
            if stage.layers[0] <= end:
                raise ConfigError(
                    f"the stages overlap or are out of order at layers={stage.layers}"
                )
            end = stage.layers[1]
        threshold = self.routing_threshold
        if not (isinstance(threshold, (int, float)) and 0 <= threshold < math.inf):
            raise ConfigError(f"routing_threshold must be a number >= 0, not {threshold!r}")
        if self.routing_threshold > 0 and self.exit_layer is None:
            raise ConfigError("routing_threshold needs exit_layer: the layer at which tokens leave")
        LayerLosses(self.loss_weights)

    @property
    def loss_weights(self) -> dict[int, float]:
        """The weight of each layer's loss."""
        if self.stages is not None:
            return {stage.layers[1]: stage.loss_weight for stage in self.stages}
        return dict(self.layer_weights or {})


def create_standard_config(num_layers: int = 3) -> TrainingConfig:
    """All weight on the last layer.

    >>> from ease import create_standard_config
    >>> create_standard_config(2).loss_weights
    {2: 1.0}
    """
    return TrainingConfig(stages=[StageConfig(layers=(num_layers, num_layers), loss_weight=1.0)])


def create_deep_supervision_config(num_layers: int = 3) -> TrainingConfig:
    """Every layer its own stage, with equal weights.

    >>> from ease import create_deep_supervision_config
    >>> create_deep_supervision_config(2).loss_weights
    {1: 0.5, 2: 0.5}
    """
    return TrainingConfig(
        stages=[
            StageConfig(layers=(layer, layer), loss_weight=1.0 / num_layers)
            for layer in range(1, num_layers + 1)
        ]
    )


class Trainer:
    """Trains and evaluates a model as a `TrainingConfig` says.

    >>> import torch
    >>> from ease import StandardTransformer, Trainer, create_standard_config
    >>> _ = torch.manual_seed(0)
    >>> model = StandardTransformer(vocab_size=10, dim=8, num_layers=2, num_heads=2)
    >>> trainer = Trainer(create_standard_config(2), vocab_size=10)
    >>> x = torch.zeros(2, 4, dtype=torch.long)
    >>> optimizer = trainer.create_optimizer(model, base_lr=1e-2)
    >>> first = trainer.train_epoch(model, [(x, x)], optimizer)
    >>> trainer.train_epoch(model, [(x, x)], optimizer) < first
    True
    """

    def __init__(
        self, config: TrainingConfig, vocab_size: int, device: str | torch.device = "cpu"
    ) -> None:
        self.config = config
        self.vocab_size = vocab_size
        self.device = torch.device(device)
        self.objective = LayerLosses(config.loss_weights)

    def create_optimizer(self, model: Model, base_lr: float) -> Optimizer:
        """AdamW; layer i learns at `base_lr * layer_lr_scales[i]`."""
        defaults = OptimConfig()
        return build_optimizer(
            self._staged(model), base_lr, defaults.weight_decay, self.config.layer_lr_scales
        )

    def compute_loss(self, model: Model, x: Tensor, y: Tensor) -> Tensor:
        """The weighted loss of one batch. Heads of layers without weight are not run."""
        require_tokens((x, y), self.vocab_size)
        return self.objective(self._staged(model), x.to(self.device), y.to(self.device))

    def train_epoch(self, model: Model, batches: Iterable[Batch], optimizer: Optimizer) -> float:
        """One pass over the batches; the mean of their losses."""
        require_reader(batches, "training")
        lm = self._staged(model)
        step = build_step(lm, self.objective, optimizer, OptimConfig().grad_clip)
        lm.train()
        losses: list[float] = []
        for number, batch in enumerate(batches, start=1):
            try:
                losses.append(step([batch]))
            except NonFiniteError as error:
                raise error.at(f"step {number} of this epoch, batch {number}") from None
        if not losses:
            raise DataError("train_batches is empty")
        return math.fsum(losses) / len(losses)

    def evaluate(self, model: Model, batches: Iterable[Batch]) -> dict[str, float]:
        """Perplexity and accuracy, with tokens leaving early where the configuration says so.

        Keys: `ppl`, `acc`, `shallow_ratio` (the share that left), `compute_cost` (of the layers).
        """
        figures, shallow_ratio, compute_cost = self._evaluate(self._staged(model), batches)
        return {
            "ppl": figures.ppl,
            "acc": figures.acc,
            "shallow_ratio": shallow_ratio,
            "compute_cost": compute_cost,
        }

    def train_with_early_stopping(
        self,
        model: Model,
        train_batches: Iterable[Batch],
        val_batches: Iterable[Batch],
        optimizer: Optimizer,
        max_epochs: int = 100,
        patience: int = 1,
        verbose: bool = True,
    ) -> dict[str, object]:
        """Train until `patience` epochs in a row do not improve; the best weights are put back.

        Keys: `train_losses`, `val_losses`, `val_accs` (one an epoch), `best_epoch` (from 1),
        `total_epochs`, `stopped_early`.
        """
        require_reader(val_batches, "selection")
        lm = self._staged(model)
        self._require_exit(lm)
        phase = Phase(
            name="train",
            objective=self.objective,
            optim=OptimConfig(precision="fp32"),
            stop=checked(StopConfig, max_epochs=max_epochs, patience=patience),
        )
        loop = PhaseTrainer(
            lm,
            phase,
            train_batches,
            judge=lambda: {lm.num_layers: self._evaluate(lm, val_batches)[0]},
            callbacks=[EpochLines(max_epochs, patience)] if verbose else [],
            optimizer=optimizer,
        )
        report = loop.run()
        return {
            "train_losses": [evaluation.train_loss for evaluation in report.evaluations],
            "val_losses": [evaluation.judged.loss for evaluation in report.evaluations],
            "val_accs": [evaluation.judged.acc for evaluation in report.evaluations],
            "best_epoch": report.best.epoch,
            "total_epochs": len(report.evaluations),
            "stopped_early": report.stopped_early,
        }

    def _evaluate(self, lm: StagedLM, batches: Iterable[Batch]) -> tuple[Figures, float, float]:
        last, exit_layer = lm.num_layers, self._require_exit(lm)
        if exit_layer is None:
            return evaluate_exits(lm, batches, [last], reader="selection")[last], 0.0, 1.0
        thresholds = {exit_layer: self.config.routing_threshold}
        routed = evaluate_routed(lm, batches, SoftmaxConfidence(), thresholds, reader="selection")
        return routed.figures, routed.shallow_ratio, routed.compute_cost

    def _require_exit(self, lm: StagedLM) -> int | None:
        """The layer where tokens may leave, which this model must have; None without routing."""
        exit_layer = self.config.exit_layer
        if self.config.routing_threshold == 0 or exit_layer is None:
            return None
        lm.require_exit(exit_layer)
        if exit_layer == lm.num_layers:
            raise ConfigError(f"exit_layer={exit_layer} is the last layer: tokens leave before it")
        return exit_layer

    def _staged(self, model: Model) -> StagedLM:
        lm = staged(model)
        if lm.config.vocab_size != self.vocab_size:
            raise ConfigError(
                f"the model has {lm.config.vocab_size} types, the Trainer {self.vocab_size}"
            )
        return lm.to(self.device)


class EpochLines(Callback):
    """The specification's console lines of one phase."""

    def __init__(self, max_epochs: int, patience: int) -> None:
        self.max_epochs = max_epochs
        self.patience = patience

    def on_evaluation(self, evaluation: Evaluation) -> None:
        judged = evaluation.judged
        print(
            f"Epoch {evaluation.epoch}/{self.max_epochs} - "
            f"Train PPL: {perplexity(evaluation.train_loss):.4f} | "
            f"Val PPL: {judged.ppl:.4f} | Val Acc: {judged.acc:.2%}"
        )
        if evaluation.improved:
            print(f"  → New best model (val_loss: {judged.loss:.4f})")
        else:
            print(f"  → No improvement ({evaluation.since_best}/{self.patience})")

    def on_phase_end(self, best: Evaluation, stopped_early: bool) -> None:
        if stopped_early:
            print(f"\nEarly stopping triggered at epoch {best.epoch + self.patience}")
            print(f"Best model was at epoch {best.epoch}")
        print(f"\nRestored best model from epoch {best.epoch}")
