"""Cross-entropy of a linear head without ever holding tokens x vocabulary.

The head and the loss are one operation, done for a few rows at a time in one reused buffer. The
gradients of a row's loss are known as soon as its probabilities are, so the forward pass makes
them at once: the three matrix products of the plain way, none of them twice, and none of its
passes over memory. Timed against the plain way in `benchmarks/`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# The buffer of one chunk. A CPU is as fast with a small one; a GPU wants few launches.
BUFFER_BYTES = {"cpu": 40 << 20, "cuda": 128 << 20}
HAS_TRITON = importlib.util.find_spec("triton") is not None


def chunk_rows(vocab_size: int, device: torch.device) -> int:
    """How many rows of logits fit in the buffer: a multiple of 64, from 64 to 4,096."""
    rows = BUFFER_BYTES.get(device.type, BUFFER_BYTES["cpu"]) // (4 * vocab_size)
    return min(max(rows // 64 * 64, 64), 4096)


def logit_chunks(features: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Logits (rows, vocab) of a few rows of features (tokens, dim) at a time; takes no gradients.

    All chunks are written into one buffer: a chunk is valid until the next is asked for.
    """
    tokens, vocab = features.shape[0], weight.shape[0]
    rows = min(chunk_rows(vocab, features.device), max(tokens, 1))
    buffer = torch.empty(rows, vocab, dtype=features.dtype, device=features.device)
    for start in range(0, tokens, rows):
        chunk = slice(start, min(start + rows, tokens))
        out = buffer[: chunk.stop - start]
        yield chunk, torch.mm(features[chunk], weight.T, out=out)


def linear_cross_entropy(
    features: Tensor,  # (tokens, dim)
    weight: Tensor,  # (vocab, dim)
    targets: Tensor,  # (tokens,)
    token_weights: Tensor,  # (tokens,)
) -> Tensor:
    """The sum over tokens of `token_weights * cross-entropy`, in float32.

    Only `features` and `weight` get gradients. Under autocast the matrix products run in its
    precision, everything else in float32.

    >>> import torch
    >>> features, weight = torch.zeros(2, 4), torch.zeros(8, 4)
    >>> loss = linear_cross_entropy(features, weight, torch.tensor([0, 1]), torch.ones(2) / 2)
    >>> round(loss.item(), 4)  # log(8): nothing is known yet
    2.0794
    """
    loss: Tensor = _LinearCrossEntropy.apply(features, weight, targets, token_weights)  # type: ignore[no-untyped-call]
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, targets: Tensor, token_weights: Tensor
    ) -> Tensor:
        device = features.device
        autocast = torch.is_autocast_enabled(device.type)
        dtype = torch.get_autocast_dtype(device.type) if autocast else weight.dtype
        with torch.autocast(device.type, enabled=False):
            features_read = features.to(dtype)
            loss, ctx.features_grad, ctx.weight_grad = _best_way(features_read)(
                features_read,
                weight.to(dtype),
                targets,
                token_weights.float(),
                wanted=(ctx.needs_input_grad[0], ctx.needs_input_grad[1]),
            )
        ctx.dtypes = features.dtype, weight.dtype
        ctx.spent = False
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        # They are scaled in place, so they serve one backward pass.
        if ctx.spent:
            raise RuntimeError("the gradients of this loss are spent: compute the loss again")
        ctx.spent = True
        features_grad, weight_grad = ctx.features_grad, ctx.weight_grad
        ctx.features_grad = ctx.weight_grad = None
        if features_grad is not None:
            features_grad = features_grad.mul_(upstream).to(ctx.dtypes[0])
        if weight_grad is not None:
            weight_grad = weight_grad.mul_(upstream).to(ctx.dtypes[1])
        return features_grad, weight_grad, None, None


def _best_way(features: Tensor) -> Callable[..., tuple[Tensor, Tensor | None, Tensor | None]]:
    """Kernels for narrow models in bf16 on a GPU, where Triton is installed; else chunks."""
    if features.device.type == "cuda" and HAS_TRITON:
        from ease.model import fused_loss

        if fused_loss.fits(features):
            return fused_loss.fused_loss
    return _chunked


def _chunked(
    features: Tensor,
    weight: Tensor,
    targets: Tensor,
    token_weights: Tensor,
    wanted: tuple[bool, bool],
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The loss, and the gradients of it that are wanted, both in float32."""
    features_grad = torch.empty_like(features, dtype=torch.float32) if wanted[0] else None
    weight_grad = torch.zeros_like(weight, dtype=torch.float32) if wanted[1] else None
    loss = torch.zeros((), dtype=torch.float32, device=features.device)
    for chunk, logits in logit_chunks(features, weight):
        read, target = features[chunk], targets[chunk]
        scale = token_weights[chunk].unsqueeze(1)  # (rows, 1)
        losses, probabilities = _softmax_in_place(logits, target)
        loss += (losses * scale.squeeze(1)).sum()
        if features_grad is not None:
            expected = torch.mm(probabilities, weight).float()  # (rows, dim)
            features_grad[chunk] = (expected - weight[target].float()) * scale
        if weight_grad is not None:
            scaled = read * scale.to(read.dtype)
            if weight_grad.dtype == probabilities.dtype:
                weight_grad.addmm_(probabilities.T, scaled)
            else:
                weight_grad += torch.mm(probabilities.T, scaled)
            weight_grad.index_add_(0, target, scaled.float(), alpha=-1)
    return loss, features_grad, weight_grad


def _softmax_in_place(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's cross-entropy (float32) and its probabilities, written over the logits."""
    largest = logits.amax(dim=1).float()  # (rows,)
    at_target = logits.gather(1, targets.unsqueeze(1)).squeeze(1).float()
    probabilities = torch.softmax(logits, dim=1, out=logits)
    # The largest probability is exp(0) / sum: it gives the sum without another exponential.
    log_sum = -probabilities.amax(dim=1).float().log()
    return largest + log_sum - at_target, probabilities
