from __future__ import annotations

from typing import Any

import pytest

from ease import (
    ConfigError,
    StageConfig,
    TrainingConfig,
    create_deep_supervision_config,
    create_standard_config,
)


def test_stages_put_their_weight_on_their_last_layer() -> None:
    stages = [StageConfig(layers=(1, 2), loss_weight=0.7), StageConfig((3, 3), 0.3)]
    assert TrainingConfig(stages=stages).loss_weights == {2: 0.7, 3: 0.3}
    assert StageConfig((1, 1)).loss_weight == 1.0
    gap = [StageConfig((2, 2)), StageConfig((5, 6))]
    assert TrainingConfig(stages=gap).loss_weights == {2: 1.0, 6: 1.0}


def test_both_spellings_say_the_same() -> None:
    weights = {2: 0.7, 3: 0.3}
    stages = [StageConfig((1, 2), 0.7), StageConfig((3, 3), 0.3)]
    one, two = TrainingConfig(layer_weights=weights), TrainingConfig(stages=stages)
    assert one.loss_weights == two.loss_weights == weights


def test_the_presets() -> None:
    assert create_standard_config(5) == TrainingConfig(stages=[StageConfig((5, 5), 1.0)])
    assert create_standard_config().loss_weights == {3: 1.0}
    assert create_deep_supervision_config().loss_weights == pytest.approx(
        dict.fromkeys((1, 2, 3), 1 / 3)
    )
    deep = create_deep_supervision_config(4)
    assert deep.stages is not None
    assert [stage.layers for stage in deep.stages] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert all(stage.loss_weight == 0.25 for stage in deep.stages)
    assert deep.routing_threshold == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give stages=.* or layer_weights"),
        ({"stages": []}, "give stages"),
        ({"layer_weights": {}}, "give stages"),
        ({"stages": [StageConfig((1, 1))], "layer_weights": {1: 1.0}}, "only one of them"),
        (
            {"stages": [StageConfig((1, 2)), StageConfig((2, 3))]},
            r"overlap or are out of order at layers=\(2, 3\)",
        ),
        ({"stages": [StageConfig((3, 3)), StageConfig((1, 2))]}, "out of order"),
        ({"layer_weights": {1: 0.0}}, "no layer carries a loss"),
        ({"layer_weights": {1: 1.0, 2: -1.0}}, "layer 2 is -1.0"),
        ({"stages": [StageConfig((1, 1), float("nan"))]}, "layer 1 is nan"),
        ({"layer_weights": {1: 1.0}, "routing_threshold": 0.5}, "needs exit_layer"),
        ({"layer_weights": {1: 1.0}, "routing_threshold": -0.5}, "must be a number >= 0, not -0.5"),
        ({"layer_weights": {1: 1.0}, "routing_threshold": float("nan")}, "must be a number >= 0"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingConfig(**options)


@pytest.mark.parametrize("layers", [(0, 1), (2, 1), (-1, -1), (1,), (1, 2, 3), 3])
def test_a_stage_is_a_range_of_layers_counted_from_one(layers: Any) -> None:
    with pytest.raises(ConfigError, match="layers="):
        StageConfig(layers=layers)
