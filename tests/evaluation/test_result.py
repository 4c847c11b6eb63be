from __future__ import annotations

import json
import math

import torch

from ease import Figures
from ease.evaluation.result import model_result, protocol_result, split_result, versions
from model.tiny import tiny_model


def test_a_split_is_judged_by_its_deepest_exit_and_shows_the_others() -> None:
    exits = {4: Figures(2.0, 0.5, 10), 2: Figures(math.inf, 0.25, 10)}
    result = split_result(exits)
    assert result["ppl"] == math.exp(2.0)
    assert result["acc"] == 0.5
    assert result["exits"]["2"] == {"ppl": None, "acc": 0.25, "loss": None, "tokens": 10}
    assert set(result["exits"]) == {"2", "4"}
    json.dumps(result, allow_nan=False)


def test_only_the_reference_protocol_is_called_not_held_out() -> None:
    assert protocol_result("honest") == {"protocol": "honest", "held_out": True}
    reference = protocol_result("reference")
    assert reference["held_out"] is False
    assert "not held out" in reference["note"]


def test_a_model_is_described_by_its_shape_and_size() -> None:
    assert model_result(tiny_model()) == {
        "parameters": tiny_model().num_parameters(),
        "num_layers": 2,
        "exits": [1, 2],
        "dim": 8,
        "vocab_size": 23,
        "num_heads": 2,
    }


def test_the_versions_of_what_ran_are_named() -> None:
    found = versions(torch.device("cpu"))
    assert found["torch"] == torch.__version__
    assert found["device"].startswith("cpu (")
    assert {"ease", "tokenizers", "python"} <= found.keys()
