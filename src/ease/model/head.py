"""A head: hidden states -> next-token predictions, as logits or as what one needs of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ease.errors import DataError
from ease.model.chunked_loss import linear_cross_entropy, logit_chunks


@dataclass(frozen=True)
class TokenScores:
    """What a head says of each token, all (batch, seq)."""

    loss: Tensor
    correct: Tensor  # is the most probable token the right one?
    confidence: Tensor  # the largest probability


class Head(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight  # (vocab, dim); the embedding's own where the head is tied

    def forward(self, features: Tensor) -> Tensor:
        return F.linear(features, self.weight)

    def loss(self, features: Tensor, targets: Tensor, token_weights: Tensor | None) -> Tensor:
        """The weighted sum of the token losses; without weights, their mean."""
        _require_fit(features, targets)
        if token_weights is None:
            token_weights = torch.full(targets.shape, 1.0 / targets.numel(), device=features.device)
        return linear_cross_entropy(
            features.flatten(0, -2), self.weight, targets.flatten(), token_weights.flatten()
        )

    @torch.no_grad()
    def scores(self, features: Tensor, targets: Tensor) -> TokenScores:
        """Loss, correctness and confidence of every token, a few rows of logits at a time."""
        _require_fit(features, targets)
        flat, flat_targets = features.flatten(0, -2), targets.flatten()
        loss = torch.empty(flat_targets.shape, device=features.device)
        correct = torch.empty_like(flat_targets, dtype=torch.bool)
        confidence = torch.empty_like(loss)
        for chunk, logits in logit_chunks(flat, self.weight):
            target = flat_targets[chunk]
            largest, guess = logits.float().max(dim=-1)
            log_sum = logits.float().logsumexp(dim=-1)
            loss[chunk] = log_sum - logits.gather(1, target.unsqueeze(1)).squeeze(1)
            correct[chunk] = guess == target
            confidence[chunk] = (largest - log_sum).exp()
        return TokenScores(*(column.view(targets.shape) for column in (loss, correct, confidence)))

    @torch.no_grad()
    def confidence(self, features: Tensor) -> Tensor:
        """The largest probability of every token, (batch, seq)."""
        flat = features.flatten(0, -2)
        confidence = torch.empty(flat.shape[0], device=features.device)
        for chunk, logits in logit_chunks(flat, self.weight):
            largest = logits.float().amax(dim=-1)
            confidence[chunk] = (largest - logits.float().logsumexp(dim=-1)).exp()
        return confidence.view(features.shape[:-1])


def _require_fit(features: Tensor, targets: Tensor) -> None:
    if targets.shape != features.shape[:-1]:
        raise DataError(
            f"targets of shape {tuple(targets.shape)} do not fit "
            f"states of shape {tuple(features.shape)}"
        )
