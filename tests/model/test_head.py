from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from ease import DataError
from ease.model import chunked_loss
from ease.model.head import Head
from model.largest_tensor import Watch
from model.tiny import random_ids, randomise, tiny_model


@given(
    batch=st.integers(1, 4),
    seq=st.integers(1, 9),
    vocab=st.integers(1, 30),
    rows=st.integers(1, 40),
    seed=st.integers(0, 2**16),
)
def test_scores_and_confidence_are_those_of_plain_logits_whatever_the_chunk(
    batch: int, seq: int, vocab: int, rows: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(batch, seq, 5, generator=generator)
    head = Head(torch.randn(vocab, 5, generator=generator))
    targets = torch.randint(vocab, (batch, seq), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_loss, "chunk_rows", lambda *_: rows)
        scores = head.scores(features, targets)
        confidence = head.confidence(features)
    logits = head(features).double()
    probabilities = logits.softmax(dim=-1)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    wanted = losses.view(batch, seq).float()
    torch.testing.assert_close(scores.loss, wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(scores.correct, logits.argmax(dim=-1) == targets)
    largest = probabilities.amax(dim=-1).float()
    torch.testing.assert_close(scores.confidence, largest, rtol=1e-5, atol=0)
    torch.testing.assert_close(confidence, largest, rtol=1e-5, atol=0)


def test_scores_of_extreme_logits_are_finite() -> None:
    head = Head(torch.tensor([[1.0], [-1.0]]))
    scores = head.scores(torch.tensor([[[1e4], [-1e4]]]), torch.tensor([[0, 0]]))
    assert scores.loss.tolist() == [[0.0, 2e4]]
    assert scores.correct.tolist() == [[True, False]]
    assert scores.confidence.tolist() == [[1.0, 1.0]]


def test_scores_never_hold_tokens_by_vocabulary_and_no_gradient() -> None:
    head = Head(torch.randn(301, 4, requires_grad=True))
    features, targets = torch.randn(2, 300, 4), random_ids(2, 300)
    with pytest.MonkeyPatch.context() as patch, Watch() as watch:
        patch.setattr(chunked_loss, "chunk_rows", lambda *_: 50)
        scores, confidence = head.scores(features, targets), head.confidence(features)
    assert watch.largest == 50 * 301
    assert not scores.loss.requires_grad
    assert not confidence.requires_grad


def test_a_loss_without_weights_is_the_mean_and_with_weights_their_sum() -> None:
    model = randomise(tiny_model(), 1)
    output = model(random_ids(2, 6))[0]
    targets, weights = random_ids(2, 6, seed=1), torch.rand(2, 6)
    losses = F.cross_entropy(output.logits().flatten(0, 1), targets.flatten(), reduction="none")
    torch.testing.assert_close(output.loss(targets), losses.mean())
    torch.testing.assert_close(output.loss(targets, weights), (losses * weights.flatten()).sum())


def test_an_exit_reads_its_own_norm_and_head() -> None:
    model = randomise(tiny_model(), 1)
    targets = random_ids(2, 6, seed=1)
    for output in model(random_ids(2, 6)):
        features = output.stage.norm(output.left)
        assert not torch.equal(features, output.left)
        logits = features @ output.stage.head.weight.T
        torch.testing.assert_close(output.logits(), logits)
        probabilities = logits.softmax(dim=-1)
        torch.testing.assert_close(output.confidence(), probabilities.amax(dim=-1))
        at_target = probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(output.scores(targets).loss, -at_target.log())


def test_targets_of_another_shape_are_refused() -> None:
    output = tiny_model()(random_ids(2, 5))[-1]
    for use in (output.loss, output.scores):
        with pytest.raises(DataError, match=r"targets of shape \(5, 2\) do not fit"):
            use(random_ids(5, 2))
