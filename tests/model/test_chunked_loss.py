from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from ease.model import chunked_loss
from ease.model.chunked_loss import chunk_rows, linear_cross_entropy
from model.largest_tensor import Watch

ROWS = 64  # of a chunk, where the buffer is as small as it gets


@pytest.fixture(autouse=True)
def _small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_loss, "BUFFER_BYTES", {"cpu": 1})
        yield


def random_case(
    tokens: int, dim: int, vocab: int, dtype: torch.dtype = torch.float32, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Features and weight that want gradients, and targets."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(tokens, dim, generator=generator, dtype=dtype)
    weight = torch.randn(vocab, dim, generator=generator, dtype=dtype)
    targets = torch.randint(vocab, (tokens,), generator=generator)
    return features.requires_grad_(), weight.requires_grad_(), targets


def plain_loss(features: Tensor, weight: Tensor, targets: Tensor, token_weights: Tensor) -> Tensor:
    losses = F.cross_entropy(features @ weight.T, targets, reduction="none")
    return (losses * token_weights).sum()


@settings(max_examples=50)
@given(
    tokens=st.integers(1, 4 * ROWS),
    dim=st.integers(1, 9),
    vocab=st.integers(1, 40),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    zeros=st.sampled_from([0.0, 0.5, 1.0]),
    upstream=st.sampled_from([1.0, -0.3, 7.0]),
    seed=st.integers(0, 2**16),
)
def test_loss_and_gradients_are_those_of_plain_cross_entropy(
    tokens: int, dim: int, vocab: int, dtype: torch.dtype, zeros: float, upstream: float, seed: int
) -> None:
    features, weight, targets = random_case(tokens, dim, vocab, dtype, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    kept = torch.rand(tokens, generator=generator) >= zeros
    token_weights = torch.rand(tokens, generator=generator) * kept / tokens
    loss = linear_cross_entropy(features, weight, targets, token_weights)
    found = torch.autograd.grad(upstream * loss, (features, weight))
    features64 = features.detach().double().requires_grad_()
    weight64 = weight.detach().double().requires_grad_()
    wanted_loss = plain_loss(features64, weight64, targets, token_weights.double())
    wanted = torch.autograd.grad(upstream * wanted_loss, (features64, weight64))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), wanted_loss, rtol=1e-5, atol=5e-6)
    for gradient, other, leaf in zip(found, wanted, (features, weight), strict=True):
        assert gradient.dtype == leaf.dtype
        torch.testing.assert_close(gradient.double(), other, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("tokens", [1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS, 3 * ROWS + 5])
def test_chunks_that_do_not_come_out_even_lose_no_token(tokens: int) -> None:
    features, weight, targets = random_case(tokens, 4, 11)
    with Watch() as watch:
        loss = linear_cross_entropy(features, weight, targets, torch.ones(tokens))
    assert watch.calls["softmax"] == -(-tokens // ROWS)
    torch.testing.assert_close(loss, plain_loss(features, weight, targets, torch.ones(tokens)))


@pytest.mark.parametrize(
    ("features_want", "weight_wants", "products"),
    [(True, True, 3), (True, False, 2), (False, True, 2), (False, False, 1)],
)
def test_only_wanted_gradients_are_made(
    features_want: bool, weight_wants: bool, products: int
) -> None:
    features, weight, targets = random_case(ROWS, 4, 11)
    features.requires_grad_(features_want)
    weight.requires_grad_(weight_wants)
    with Watch() as watch:
        loss = linear_cross_entropy(features, weight, targets, torch.ones(ROWS))
        if features_want or weight_wants:
            loss.backward()
    assert watch.calls["mm"] + watch.calls["addmm_"] == products
    assert (features.grad is not None) == features_want
    assert (weight.grad is not None) == weight_wants


def test_a_frozen_side_does_not_change_the_other_ones_gradient() -> None:
    features, weight, targets = random_case(ROWS + 3, 4, 11)
    scale = torch.rand(ROWS + 3)
    both = torch.autograd.grad(
        linear_cross_entropy(features, weight, targets, scale), (features, weight)
    )
    frozen_weight = linear_cross_entropy(features, weight.detach(), targets, scale)
    frozen_features = linear_cross_entropy(features.detach(), weight, targets, scale)
    assert torch.equal(torch.autograd.grad(frozen_weight, features)[0], both[0])
    assert torch.equal(torch.autograd.grad(frozen_features, weight)[0], both[1])


def test_logits_of_ten_thousand_stay_finite_and_right() -> None:
    features = torch.tensor([[1e4], [1e4], [-1e4], [1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0], [1.0]], requires_grad=True)
    targets = torch.tensor([0, 1, 1, 2])
    loss = linear_cross_entropy(features, weight, targets, torch.ones(4))
    # At 1e4 two types share all of the probability, and at -1e4 the other one has it.
    wanted = 3 * torch.tensor(2.0).log() + 2e4
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=0)
    gradients = torch.autograd.grad(loss, (features, weight))
    plain = plain_loss(features, weight, targets, torch.ones(4))
    for found, other in zip(gradients, torch.autograd.grad(plain, (features, weight)), strict=True):
        assert found.isfinite().all()
        torch.testing.assert_close(found, other)


def test_tokens_by_vocabulary_is_never_held() -> None:
    tokens, dim, vocab = 10 * ROWS, 4, 501
    features, weight, targets = random_case(tokens, dim, vocab)
    with Watch() as watch:
        linear_cross_entropy(features, weight, targets, torch.ones(tokens)).backward()
    assert watch.largest == ROWS * vocab
    with Watch() as watch:
        plain_loss(features, weight, targets, torch.ones(tokens)).backward()
    assert watch.largest == tokens * vocab


def test_under_bf16_autocast_loss_and_gradients_stay_within_one_per_cent() -> None:
    features, weight, targets = random_case(5 * ROWS, 32, 200)
    scale = torch.rand(5 * ROWS)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(features, weight, targets, scale)
    found = torch.autograd.grad(loss, (features, weight))
    plain = plain_loss(features, weight, targets, scale)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(plain.item(), rel=0.01)
    assert loss.item() != plain.item()  # bf16 really ran
    for gradient, wanted in zip(found, torch.autograd.grad(plain, (features, weight)), strict=True):
        assert gradient.dtype == torch.float32
        assert ((gradient - wanted).norm() / wanted.norm()).item() < 0.01


@given(vocab=st.integers(1, 10**6), buffer=st.integers(1, 2**30))
def test_a_chunk_fits_its_buffer_unless_it_is_as_small_as_it_gets(vocab: int, buffer: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_loss, "BUFFER_BYTES", {"cpu": buffer})
        rows = chunk_rows(vocab, torch.device("cpu"))
        assert rows == chunk_rows(vocab, torch.device("meta"))  # an unknown device is like a CPU
    assert rows % 64 == 0
    assert 64 <= rows <= 4096
    assert rows == 64 or rows * vocab * 4 <= buffer
    assert rows == 4096 or (rows + 64) * vocab * 4 > buffer


def test_a_second_backward_pass_is_refused_not_wrong() -> None:
    features = torch.randn(4, 8, requires_grad=True)
    weight = torch.randn(11, 8, requires_grad=True)
    loss = 0.5 * linear_cross_entropy(features, weight, torch.arange(4), torch.ones(4))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute the loss again"):
        loss.backward()
