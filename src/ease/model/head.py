"""A head: hidden states -> next-token predictions, as logits or as what one needs of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ease.model.chunked_loss import chunk_rows, linear_cross_entropy


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
        if token_weights is None:
            token_weights = torch.full(targets.shape, 1.0 / targets.numel(), device=features.device)
        return linear_cross_entropy(
            features.flatten(0, -2), self.weight, targets.flatten(), token_weights.flatten()
        )

    @torch.no_grad()
    def scores(self, features: Tensor, targets: Tensor) -> TokenScores:
        """Loss, correctness and confidence of every token, a few rows of logits at a time."""
        flat, flat_targets = features.flatten(0, -2), targets.flatten()
        rows = chunk_rows(self.weight.shape[0], features.device)
        parts = []
        for read, target in zip(
            torch.split(flat, rows), torch.split(flat_targets, rows), strict=True
        ):
            logits = self(read).float()  # (rows, vocab)
            largest, guess = logits.max(dim=-1)
            at_target = logits.gather(1, target.unsqueeze(1)).squeeze(1)
            log_sum = logits.logsumexp(dim=-1)
            parts.append((log_sum - at_target, guess == target, (largest - log_sum).exp()))
        loss, correct, confidence = (
            torch.cat(column).view(targets.shape) for column in zip(*parts, strict=True)
        )
        return TokenScores(loss, correct, confidence)

    @torch.no_grad()
    def confidence(self, features: Tensor) -> Tensor:
        """The largest probability of every token, (batch, seq)."""
        rows = chunk_rows(self.weight.shape[0], features.device)
        parts = []
        for read in torch.split(features.flatten(0, -2), rows):
            logits = self(read).float()
            parts.append((logits.amax(dim=-1) - logits.logsumexp(dim=-1)).exp())
        return torch.cat(parts).view(features.shape[:-1])
