"""Loss, perplexity and accuracy of every exit, over every token exactly once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ease.data import Batch, Reader, require_reader, require_tokens
from ease.errors import ConfigError, DataError
from ease.exits import ExitPolicy
from ease.model import ClassicTransformer, StagedLM, StageOutput, staged

Model = StagedLM | ClassicTransformer


def perplexity(loss: float) -> float:
    """exp(loss); infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


@dataclass(frozen=True)
class Figures:
    """What a set of predictions is worth. `loss` is the mean token loss, in nats."""

    loss: float
    acc: float
    tokens: int

    @property
    def ppl(self) -> float:
        """exp(sum of token losses / tokens)."""
        return perplexity(self.loss)

    def as_json(self) -> dict[str, float | int | None]:
        """JSON has no infinity or NaN: they become null."""
        figures = {"ppl": self.ppl, "acc": self.acc, "loss": self.loss}
        finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        return {**finite, "tokens": self.tokens}


@dataclass
class Tally:
    """Sums over tokens, in float64, so that the batch size does not show in the result."""

    loss: float = 0.0
    correct: int = 0
    tokens: int = 0

    def add(self, loss: Tensor, correct: Tensor) -> None:  # both (batch, seq)
        self.loss += loss.sum(dtype=torch.float64).item()
        self.correct += int(correct.sum().item())
        self.tokens += loss.numel()

    def figures(self) -> Figures:
        if not self.tokens:
            raise DataError("there is nothing to evaluate: not one whole batch of tokens")
        return Figures(self.loss / self.tokens, self.correct / self.tokens, self.tokens)


def evaluate_exits(
    model: Model,
    batches: Iterable[Batch],
    layers: Iterable[int] | None = None,
    reader: Reader = "report",
) -> dict[int, Figures]:
    """Each exit as if every token left there; `layers` names the exits wanted (all by default).

    `reader` is who asks: batches of a split that it may not read raise a `LeakError`.

    >>> import torch
    >>> from ease import StandardTransformer, evaluate_exits
    >>> model = StandardTransformer(vocab_size=10, dim=8, num_layers=2, num_heads=2)
    >>> x = torch.zeros(2, 4, dtype=torch.long)
    >>> evaluate_exits(model, [(x, x)])[2].tokens
    8
    """
    require_reader(batches, reader)
    model = staged(model)
    wanted = set(model.exits if layers is None else layers)
    if not wanted:
        raise ConfigError(f"name at least one layer; this model's exits are at {model.exits}")
    for layer in wanted:
        model.require_exit(layer)
    tallies = {layer: Tally() for layer in sorted(wanted)}
    for outputs, y in _outputs(model, batches, until=max(wanted)):
        for output in outputs:
            if output.layer in wanted:
                scores = output.scores(y)
                tallies[output.layer].add(scores.loss, scores.correct)
    return {layer: tally.figures() for layer, tally in tallies.items()}


@dataclass(frozen=True)
class RoutedFigures:
    """A model whose tokens may leave before its last layer, computed densely."""

    figures: Figures
    shallow_ratio: float  # the share of tokens that left early
    compute_cost: float  # the layer cost


def evaluate_routed(
    model: Model,
    batches: Iterable[Batch],
    policy: ExitPolicy,
    thresholds: Mapping[int, float],
    reader: Reader = "report",
) -> RoutedFigures:
    """Every layer runs for every token; each token is then read at the first exit it may leave.

    This is the specification's dense rule: deeper layers see whole sequences, and the saving is
    counted, not made. A threshold of 0 lets every token leave.

    >>> import torch
    >>> from ease import SoftmaxConfidence, StandardTransformer, evaluate_routed
    >>> model = StandardTransformer(vocab_size=10, dim=8, num_layers=2, num_heads=2)
    >>> x = torch.zeros(2, 4, dtype=torch.long)
    >>> evaluate_routed(model, [(x, x)], SoftmaxConfidence(), {1: 0.0}).compute_cost
    0.5
    """
    require_reader(batches, reader)
    model = staged(model)
    for layer in thresholds:
        model.require_exit(layer)
    tally, left, layer_tokens = Tally(), 0, 0
    for outputs, y in _outputs(model, batches, until=None):
        alive = torch.ones_like(y, dtype=torch.bool)
        loss = torch.zeros_like(y, dtype=torch.float32)
        correct = torch.zeros_like(y, dtype=torch.bool)
        for output in outputs:
            last = output.layer == model.num_layers
            if not last and output.layer not in thresholds:
                continue
            leaves = alive
            if not last:
                leaves = alive & (policy.score(output) >= thresholds[output.layer])
                left += int(leaves.sum().item())
            scores = output.scores(y)
            loss = torch.where(leaves, scores.loss, loss)
            correct = torch.where(leaves, scores.correct, correct)
            layer_tokens += output.layer * int(leaves.sum().item())
            alive = alive & ~leaves
        tally.add(loss, correct)
    figures = tally.figures()
    full = figures.tokens * model.num_layers
    return RoutedFigures(figures, left / figures.tokens, layer_tokens / full)


def _outputs(
    model: StagedLM, batches: Iterable[Batch], until: int | None
) -> Iterator[tuple[list[StageOutput], Tensor]]:
    """The outputs and targets of each batch, in evaluation mode and without gradients."""
    device = model.embedding.weight.device
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for x, y in batches:
                require_tokens((x, y), model.config.vocab_size)
                yield model(x.to(device), until=until), y.to(device)
    finally:
        model.train(training)
