from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from ease import ConfigError, LayerLosses, OptimConfig, Phase, StagedLM, StageShape, StopConfig
from ease.training import build_optimizer
from ease.training.strategies import (
    DeepSupervisionConfig,
    DiscriminativeConfig,
    StandardConfig,
    StrategyConfig,
)
from model.tiny import random_ids, tiny_model

OPTIM, STOP = OptimConfig(lr=0.5), StopConfig(max_epochs=7)


def three_exits() -> StagedLM:
    return tiny_model(StageShape(layers=1), StageShape(layers=2), StageShape(layers=1))


def only_phase(strategy: StrategyConfig) -> Phase:
    [phase] = strategy.phases(three_exits(), OPTIM, STOP)
    assert (phase.optim, phase.stop) == (OPTIM, STOP)
    return phase


def loss_weights(phase: Phase) -> dict[int, float]:
    assert isinstance(phase.objective, LayerLosses)
    return phase.objective.weights


def test_standard_puts_all_weight_on_the_last_layer() -> None:
    phase = only_phase(StandardConfig())
    assert (phase.name, loss_weights(phase), phase.lr_scales) == ("standard", {4: 1.0}, {})


@pytest.mark.parametrize(
    ("strategy", "weights"),
    [
        (DeepSupervisionConfig(), {1: 1 / 3, 3: 1 / 3, 4: 1 / 3}),
        (DeepSupervisionConfig(weights="depth"), {1: 1 / 8, 3: 3 / 8, 4: 4 / 8}),
        (DeepSupervisionConfig(weights=(0.5, 0.0, 2.0)), {1: 0.5, 4: 2.0}),
    ],
)
def test_deep_supervision_weighs_every_exit(
    strategy: DeepSupervisionConfig, weights: dict[int, float]
) -> None:
    phase = only_phase(strategy)
    assert loss_weights(phase) == pytest.approx(weights)
    assert phase.lr_scales == {}


def test_a_weight_for_each_exit_or_none_at_all() -> None:
    message = r"strategy\.weights has 2 numbers, but the model has 3 exits: \(1, 3, 4\)"
    with pytest.raises(ConfigError, match=message):
        only_phase(DeepSupervisionConfig(weights=(0.5, 0.5)))
    with pytest.raises(ConfigError, match="no layer carries a loss"):
        only_phase(DeepSupervisionConfig(weights=(0.0, 0.0, 0.0)))
    with pytest.raises(ValidationError):
        DeepSupervisionConfig.model_validate({"weights": "width"})


def test_discriminative_slows_each_layer_by_the_decay() -> None:
    phase = only_phase(DiscriminativeConfig(decay=2.0))
    assert loss_weights(phase) == {4: 1.0}
    assert phase.lr_scales == {1: 0.125, 2: 0.25, 3: 0.5, 4: 1.0}
    assert DiscriminativeConfig().decay == 2.6
    model = three_exits()
    optimizer = build_optimizer(model, phase.optim.lr, 0.0, phase.lr_scales)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    for layer, block in enumerate(model.layers, start=1):
        assert {rates[id(p)] for p in block.parameters()} == {0.5 * 2.0 ** (layer - 4)}
    assert rates[id(model.embedding.weight)] == rates[id(model.stages[0].head.weight)] == 0.5


def test_a_decay_below_one_is_refused() -> None:
    with pytest.raises(ValidationError, match="decay"):
        DiscriminativeConfig(decay=0.9)


@pytest.mark.parametrize(
    "strategy", [StandardConfig(), DeepSupervisionConfig(), DiscriminativeConfig()]
)
def test_every_strategy_makes_a_loss_that_trains(strategy: StrategyConfig) -> None:
    model = three_exits()
    [phase] = strategy.phases(model, OPTIM, STOP)
    loss = phase.objective(model, random_ids(2, 4), random_ids(2, 4, seed=1))
    loss.backward()
    assert model.embedding.weight.grad is not None
    assert bool((model.embedding.weight.grad != 0).any())
    assert torch.isfinite(loss)
