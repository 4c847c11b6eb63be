from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ease import ModelConfig, StageShape
from model.tiny import tiny_config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3, "num_kv_heads": 2}, r"num_heads \(3\) must be a multiple"),
        ({"head_dim": 5}, r"head_dim \(5\) must be even"),
        ({"dropout": 1.0}, "dropout"),
        ({"norm_eps": 0.0}, "norm_eps"),
        ({"rope_theta": float("nan")}, "rope_theta"),
        ({"dim": 8.0}, "dim"),
        ({"depth": 3}, "depth"),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tiny_config(**settings)


def test_the_first_stage_has_no_head_to_share() -> None:
    with pytest.raises(ValidationError, match="no earlier head"):
        tiny_config(StageShape(layers=1, head="shared"))


def test_exits_stand_where_stages_end() -> None:
    config = tiny_config(*[StageShape(layers=layers) for layers in (2, 1, 4)])
    assert config.exits == (2, 3, 7)
    assert config.num_layers == 7


def test_a_shape_survives_its_json() -> None:
    config = tiny_config(StageShape(layers=2, norm="post"), qk_norm=True, dropout=0.25)
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config
