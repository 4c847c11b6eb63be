"""The head's cross-entropy for narrow models on a GPU: logits that never leave the chip.

With few dimensions a logit costs less to compute than to write down, so three kernels each make
the tiles of logits that they need: one for the softmax's normaliser, one for the gradient of the
features, one for the gradient of the weight. Wide models are better served by large matrix
products (`chunked_loss`).
"""

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDEST = 128  # dimensions that fit in registers beside a tile of logits
ROWS, TYPES = 128, 64  # the tile of logits
PROGRAMS = 264  # enough to fill a large GPU twice


@triton.jit
def _logits(features, weight, row, type_, dims, tokens, vocab, dim):
    """A tile of logits (rows, types); zero outside."""
    f = tl.load(
        features + row[:, None] * dim + dims[None, :],
        mask=(row < tokens)[:, None] & (dims < dim)[None, :],
        other=0.0,
    )
    w = tl.load(
        weight + type_[:, None] * dim + dims[None, :],
        mask=(type_ < vocab)[:, None] & (dims < dim)[None, :],
        other=0.0,
    )
    return f, w, tl.dot(f, tl.trans(w))


@triton.jit
def _normaliser_kernel(
    features, weight, out_largest, out_sum, tokens, vocab, dim, share,
    rows: tl.constexpr, types: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """For some rows and a share of the types: the largest logit, and the sum of exp(l - it)."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    dims = tl.arange(0, width)
    first = tl.program_id(1) * share
    largest = tl.full((rows,), -float("inf"), tl.float32)
    total = tl.zeros((rows,), tl.float32)
    for start in range(first, first + share, types):
        type_ = start + tl.arange(0, types)
        _, _, logits = _logits(features, weight, row, type_, dims, tokens, vocab, dim)
        logits = tl.where((type_ < vocab)[None, :], logits, -float("inf"))
        above = tl.maximum(largest, tl.max(logits, 1))
        # A tile wholly outside leaves -inf, whose difference to itself would be NaN.
        safe = tl.where(above == -float("inf"), 0.0, above)
        total = total * tl.exp(largest - safe) + tl.sum(tl.exp(logits - safe[:, None]), 1)
        largest = above
    where = tl.program_id(1) * tokens + row
    tl.store(out_largest + where, largest, mask=row < tokens)
    tl.store(out_sum + where, total, mask=row < tokens)


@triton.jit
def _features_kernel(
    features, weight, log_sum, out, tokens, vocab, dim, share,
    rows: tl.constexpr, types: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """For some rows and a share of the types: the expected weight row under the softmax."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    dims = tl.arange(0, width)
    normaliser = tl.load(log_sum + row, mask=row < tokens, other=float("inf"))
    first = tl.program_id(1) * share
    expected = tl.zeros((rows, width), tl.float32)
    for start in range(first, first + share, types):
        type_ = start + tl.arange(0, types)
        _, w, logits = _logits(features, weight, row, type_, dims, tokens, vocab, dim)
        # Outside the vocabulary the logits are zero, far above a row of very negative ones.
        logits = tl.where((type_ < vocab)[None, :], logits, -float("inf"))
        p = tl.exp(logits - normaliser[:, None])
        expected += tl.dot(p.to(w.dtype), w)
    where = (tl.program_id(1) * tokens + row)[:, None] * dim + dims[None, :]
    tl.store(out + where, expected, mask=(row < tokens)[:, None] & (dims < dim)[None, :])


@triton.jit
def _weight_kernel(
    features, weight, log_sum, scale, out, tokens, vocab, dim, share,
    rows: tl.constexpr, types: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """For some types and a share of the rows: the sum of features by probability and scale."""
    type_ = tl.program_id(0) * types + tl.arange(0, types)
    dims = tl.arange(0, width)
    first = tl.program_id(1) * share
    total = tl.zeros((types, width), tl.float32)
    for start in range(first, first + share, rows):
        row = start + tl.arange(0, rows)
        f, _, logits = _logits(features, weight, row, type_, dims, tokens, vocab, dim)
        normaliser = tl.load(log_sum + row, mask=row < tokens, other=float("inf"))
        weighs = tl.load(scale + row, mask=row < tokens, other=0.0)
        p = tl.exp(logits - normaliser[:, None]) * weighs[:, None]
        total += tl.dot(tl.trans(p.to(f.dtype)), f)
    where = (tl.program_id(1) * vocab + type_)[:, None] * dim + dims[None, :]
    tl.store(out + where, total, mask=(type_ < vocab)[:, None] & (dims < dim)[None, :])


def fits(features: Tensor) -> bool:
    """Are the kernels the best way for these features, (tokens, dim)? In float32 they are not."""
    narrow = features.shape[1] <= WIDEST
    return features.device.type == "cuda" and features.dtype == torch.bfloat16 and narrow


def fused_loss(
    features: Tensor, weight: Tensor, targets: Tensor, token_weights: Tensor,
    wanted: tuple[bool, bool],
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """The weighted sum of the losses, and the gradients of it that are wanted, in float32."""
    tokens, dim = features.shape
    vocab = weight.shape[0]
    features, weight = features.contiguous(), weight.contiguous()
    row_tiles, type_tiles = triton.cdiv(tokens, ROWS), triton.cdiv(vocab, TYPES)
    tile = {
        "rows": ROWS,
        "types": TYPES,
        "width": max(16, triton.next_power_of_2(dim)),
        "num_warps": 8,
    }
    empty = partial(torch.empty, dtype=torch.float32, device=features.device)

    parts, share = _shares(type_tiles, row_tiles, TYPES)
    largest, total = empty(parts, tokens), empty(parts, tokens)
    grid = (row_tiles, parts)
    _normaliser_kernel[grid](features, weight, largest, total, tokens, vocab, dim, share, **tile)
    log_sum = (largest + total.log()).logsumexp(0)  # (tokens,)
    target_weight = weight[targets].float()  # (tokens, dim)
    at_target = (features.float() * target_weight).sum(1)
    loss = ((log_sum - at_target) * token_weights).sum()

    features_grad = weight_grad = None
    if wanted[0]:
        expected = empty(parts, tokens, dim)
        _features_kernel[grid](
            features, weight, log_sum, expected, tokens, vocab, dim, share, **tile
        )
        features_grad = (expected.sum(0) - target_weight) * token_weights[:, None]
    if wanted[1]:
        parts, share = _shares(row_tiles, type_tiles, ROWS)
        sums = empty(parts, vocab, dim)
        _weight_kernel[(type_tiles, parts)](
            features, weight, log_sum, token_weights, sums, tokens, vocab, dim, share, **tile
        )
        weight_grad = sums[0] if parts == 1 else sums.sum(0)
        weight_grad.index_add_(0, targets, features.float() * token_weights[:, None], alpha=-1)
    return loss, features_grad, weight_grad


def _shares(tiles: int, other_tiles: int, size: int) -> tuple[int, int]:
    """Into how many parts to cut a loop over `tiles`, and how many rows or types a part has."""
    parts = min(tiles, max(1, PROGRAMS // other_tiles))
    tiles_each = triton.cdiv(tiles, parts)
    return triton.cdiv(tiles, tiles_each), tiles_each * size
