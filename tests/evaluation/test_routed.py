from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ease import (
    ConfigError,
    DataError,
    SoftmaxConfidence,
    StagedLM,
    StageOutput,
    StageShape,
    evaluate_exits,
    evaluate_routed,
)
from model.tiny import random_batches, randomise, tiny_model

LAYERS = 4


def three_exits() -> StagedLM:
    shapes = [StageShape(layers=1), StageShape(layers=2), StageShape(layers=1)]
    return randomise(tiny_model(*shapes), 2)


@torch.no_grad()
def plain_routed(model: StagedLM, batches: Any, thresholds: dict[int, float]) -> dict[str, float]:
    """One token after the other, from plain probabilities."""
    losses, right, left, cost = [], 0, 0, 0
    for x, y in batches:
        probabilities = {output.layer: output.logits().double().softmax(-1) for output in model(x)}
        for row in range(x.shape[0]):
            for t in range(x.shape[1]):
                at = LAYERS
                for layer in sorted(thresholds, reverse=True):
                    if probabilities[layer][row, t].max().item() >= thresholds[layer]:
                        at = layer
                chosen = probabilities[at][row, t]
                losses.append(-math.log(chosen[y[row, t]].item()))
                right += int(chosen.argmax().item() == y[row, t].item())
                left += at < LAYERS
                cost += at
    tokens = len(losses)
    return {
        "ppl": math.exp(math.fsum(losses) / tokens),
        "acc": right / tokens,
        "tokens": tokens,
        "shallow": left / tokens,
        "cost": cost / (tokens * LAYERS),
    }


@settings(max_examples=50)
@given(
    first=st.none() | st.floats(0, 1),
    second=st.none() | st.floats(0, 1),
    count=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_each_token_is_read_at_the_first_exit_that_lets_it_leave(
    first: float | None, second: float | None, count: int, seed: int
) -> None:
    model, batches = three_exits().eval(), random_batches(count, seed=seed)
    given_ = {1: first, 3: second}
    thresholds = {layer: value for layer, value in given_.items() if value is not None}
    wanted = plain_routed(model, batches, thresholds)
    found = evaluate_routed(model, batches, SoftmaxConfidence(), thresholds)
    assert found.figures.ppl == pytest.approx(wanted["ppl"], rel=1e-4)
    assert found.figures.acc == wanted["acc"]
    assert found.figures.tokens == wanted["tokens"]
    assert found.shallow_ratio == wanted["shallow"]
    assert found.compute_cost == pytest.approx(wanted["cost"], rel=1e-12)


def test_some_thresholds_send_tokens_to_every_exit() -> None:
    """Else the property above could hold for want of cases."""
    batches = random_batches(3)
    medians = [output.confidence().median().item() for output in three_exits()(batches[0][0])]
    thresholds = {1: medians[0], 3: medians[1]}
    routed = evaluate_routed(three_exits(), batches, SoftmaxConfidence(), thresholds)
    assert 0.5 < routed.shallow_ratio < 0.95
    assert routed.compute_cost < 1 - 0.25 * routed.shallow_ratio  # some left at layer 1


@pytest.mark.parametrize(
    ("thresholds", "read_at", "shallow", "cost"),
    [
        ({}, 4, 0.0, 1.0),
        ({1: 1.01, 3: 1.01}, 4, 0.0, 1.0),
        ({1: 0.0}, 1, 1.0, 0.25),
        ({1: 1.01, 3: 0.0}, 3, 1.0, 0.75),
        ({1: 0.0, 3: 0.0}, 1, 1.0, 0.25),
    ],
)
def test_extreme_thresholds_read_all_tokens_at_one_exit(
    thresholds: dict[int, float], read_at: int, shallow: float, cost: float
) -> None:
    model, batches = three_exits(), random_batches(2)
    routed = evaluate_routed(model, batches, SoftmaxConfidence(), thresholds)
    assert routed.figures == evaluate_exits(model, batches)[read_at]
    assert (routed.shallow_ratio, routed.compute_cost) == (shallow, cost)


def test_a_token_at_the_threshold_leaves() -> None:
    model, batches = three_exits().eval(), random_batches(1)
    confidence = model(batches[0][0])[0].confidence()
    highest = confidence.max().item()
    routed = evaluate_routed(model, batches, SoftmaxConfidence(), {1: highest})
    assert routed.shallow_ratio == 1 / confidence.numel()


def test_any_policy_may_decide() -> None:
    class EvenTokens:
        def score(self, output: StageOutput) -> Tensor:
            return (
                (torch.arange(output.left.shape[1]) % 2 == 0).float().expand(output.left.shape[:2])
            )

    routed = evaluate_routed(three_exits(), random_batches(2, seq=4), EvenTokens(), {3: 1.0})
    assert (routed.shallow_ratio, routed.compute_cost) == (0.5, 0.5 * 0.75 + 0.5)


def test_the_mode_of_the_model_comes_back() -> None:
    for training in (True, False):
        model = three_exits().train(training)
        evaluate_routed(model, random_batches(1), SoftmaxConfidence(), {1: 0.5})
        assert all(module.training == training for module in model.modules())


def test_what_cannot_be_routed_is_refused() -> None:
    with pytest.raises(ConfigError, match="layer 2 has no exit: this model's exits are at 1, 3, 4"):
        evaluate_routed(three_exits(), random_batches(1), SoftmaxConfidence(), {2: 0.5})
    with pytest.raises(DataError, match="nothing to evaluate"):
        evaluate_routed(three_exits(), [], SoftmaxConfidence(), {1: 0.5})
