from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from ease import ConfigError, LayerLosses, StagedLM, StageShape
from ease.model.head import Head
from model.tiny import random_ids, randomise, tiny_model

X, Y = random_ids(2, 5), random_ids(2, 5, seed=1)


def three_exits() -> StagedLM:
    shapes = [StageShape(layers=1), StageShape(layers=2), StageShape(layers=1, head="shared")]
    return randomise(tiny_model(*shapes), 1)


@settings(max_examples=30)
@given(
    weights=st.dictionaries(
        st.sampled_from([1, 3, 4]), st.sampled_from([0.0, 0.3, 1.0, 5.0]), min_size=1
    ).filter(lambda weights: any(weights.values()))
)
def test_the_loss_is_the_weighted_sum_of_the_exits_mean_losses(weights: dict[int, float]) -> None:
    model = three_exits()
    wanted = torch.zeros(())
    for output in model(X):
        mean = F.cross_entropy(output.logits().flatten(0, 1), Y.flatten())
        wanted = wanted + weights.get(output.layer, 0.0) * mean
    losses = LayerLosses(weights)
    torch.testing.assert_close(losses(model, X, Y), wanted, rtol=1e-5, atol=1e-5)
    assert losses.layers == tuple(sorted(layer for layer, w in weights.items() if w))


@pytest.mark.parametrize(
    ("weights", "heads", "layers"),
    [
        ({4: 1.0}, 1, 4),
        ({1: 0.0, 3: 0.0, 4: 1.0}, 1, 4),
        ({1: 0.5, 3: 0.5, 4: 0.0}, 2, 3),
        ({1: 2.0}, 1, 1),
        ({4: 0.1, 1: 0.1, 3: 0.1}, 3, 4),
    ],
)
def test_only_heads_with_weight_and_the_layers_below_them_run(
    monkeypatch: pytest.MonkeyPatch, weights: dict[int, float], heads: int, layers: int
) -> None:
    model, ran, read = three_exits(), [], []
    for layer, block in enumerate(model.layers, start=1):
        block.register_forward_hook(lambda *_, layer=layer: ran.append(layer))
    loss = Head.loss

    def counted(head: Head, features: Tensor, targets: Tensor, scale: Tensor | None) -> Tensor:
        read.append(head)
        return loss(head, features, targets, scale)

    def never(head: Head, features: Tensor) -> Tensor:
        raise AssertionError("the loss made whole logits")

    monkeypatch.setattr(Head, "loss", counted)
    monkeypatch.setattr(Head, "forward", never)
    LayerLosses(weights)(model, X, Y)
    assert len(read) == heads
    assert ran == list(range(1, layers + 1))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({1: -0.1, 2: 1.0}, "layer 1 is -0.1: it must be a number >= 0"),
        ({2: float("nan")}, "layer 2 is nan"),
        ({2: float("inf")}, "layer 2 is inf"),
        ({1: 0.0}, "no layer carries a loss"),
        ({}, "no layer carries a loss"),
    ],
)
def test_weights_that_make_no_loss_are_refused(weights: dict[int, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LayerLosses(weights)


@pytest.mark.parametrize("layer", [0, 2, 5])
def test_a_layer_without_exit_cannot_carry_a_loss(layer: int) -> None:
    with pytest.raises(ConfigError, match=rf"layer {layer}\b"):
        LayerLosses({layer: 1.0, 4: 1.0})(three_exits(), X, Y)
