"""What happens to one batch: forward, backward, clip, check, update."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from ease.data import Batch, require_tokens
from ease.errors import NonFiniteError
from ease.model import StagedLM
from ease.training.losses import Objective

T = TypeVar("T")


@dataclass(eq=False)
class TrainStep:
    """One update of the weights from one or more batches of equal weight."""

    model: StagedLM
    objective: Objective
    optimizer: Optimizer
    grad_clip: float
    autocast_dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        self.device = self.model.embedding.weight.device
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]

    def __call__(self, batches: Sequence[Batch]) -> float:
        """The loss before the update. Where it is not finite, the weights stay as they are."""
        for batch in batches:
            require_tokens(batch, self.model.config.vocab_size)
        batches = [
            (x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True))
            for x, y in batches
        ]
        # The one transfer from the device that a step makes.
        loss, norm = self._gradients(batches).tolist()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            finite_loss = math.isfinite(loss)
            raise NonFiniteError(
                "the gradient is not finite" if finite_loss else f"the loss is {loss}"
            )
        self._update()
        return float(loss)

    def _gradients(self, batches: Sequence[Batch]) -> Tensor:
        """Fill the clipped gradients; returns (loss, gradient norm)."""
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for x, y in batches:
            with self._autocast():
                loss = self.objective(self.model, x, y) / len(batches)
            torch.autograd.backward(loss)
            total = total + loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.grad_clip)
        return torch.stack((total, norm))

    def _update(self) -> None:
        self.optimizer.step()

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.autocast_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.autocast_dtype, cache_enabled=False)


@dataclass(eq=False)
class GraphedTrainStep(TrainStep):
    """The same step on a GPU, replayed from two CUDA graphs: small models are bound by launches.

    Gradients are one graph and the update another, so that the check between them still stops a
    bad batch before it touches the weights. Batches of another shape run as they are.
    """

    # Steps that run as they are, so that the optimiser and the libraries have their state.
    WARM_UP: ClassVar = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.warmed = 0
        self.static: list[Batch] = []  # the captured graphs read their batches from here
        self.replaying = False
        self.gradient_graph = torch.cuda.CUDAGraph()
        self.update_graph = torch.cuda.CUDAGraph()
        # Warm-up and capture share a stream, and with it the workspaces of the matrix library.
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.measured: Tensor

    def _gradients(self, batches: Sequence[Batch]) -> Tensor:
        if not self.static and self.warmed == self.WARM_UP:
            self._capture(batches)
        shapes = [x.shape for x, _ in batches]
        self.replaying = shapes == [x.shape for x, _ in self.static]
        if not self.replaying:
            self.warmed = min(self.warmed + 1, self.WARM_UP)
            return self._on_stream(lambda: super(GraphedTrainStep, self)._gradients(batches))
        for (x, y), (static_x, static_y) in zip(batches, self.static, strict=True):
            static_x.copy_(x)
            static_y.copy_(y)
        self.gradient_graph.replay()
        return self.measured

    def _update(self) -> None:
        if self.replaying:
            self.update_graph.replay()
        else:
            self._on_stream(super()._update)

    def _on_stream(self, work: Callable[[], T]) -> T:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            result = work()
        torch.cuda.current_stream().wait_stream(self.stream)
        return result

    def _capture(self, batches: Sequence[Batch]) -> None:
        """Record both graphs; recording runs nothing."""
        self.static = [(x.clone(), y.clone()) for x, y in batches]
        torch.cuda.synchronize()
        with torch.cuda.graph(self.gradient_graph, stream=self.stream):
            self.measured = super()._gradients(self.static)
        pool = self.gradient_graph.pool()
        with torch.cuda.graph(self.update_graph, pool=pool, stream=self.stream):
            super()._update()


def build_step(
    model: StagedLM,
    objective: Objective,
    optimizer: Optimizer,
    grad_clip: float,
    autocast_dtype: torch.dtype | None = None,
) -> TrainStep:
    """The fastest step for the device and the optimiser."""
    capturable = all(group.get("capturable") for group in optimizer.param_groups)
    on_gpu = model.embedding.weight.device.type == "cuda"
    kind = GraphedTrainStep if on_gpu and capturable else TrainStep
    return kind(model, objective, optimizer, grad_clip, autocast_dtype)
