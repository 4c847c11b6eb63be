from __future__ import annotations

import pytest
import torch
from torch import nn

from ease import ConfigError, DeepSupervisionTransformer, StandardTransformer
from model.tiny import random_ids

IDS = random_ids(2, 6, vocab=30)


def deep() -> DeepSupervisionTransformer:
    torch.manual_seed(0)
    return DeepSupervisionTransformer(30, dim=16, num_layers=3, num_heads=2)


def test_the_size_of_the_specification() -> None:
    model = StandardTransformer(69_830, dim=64, num_layers=4)
    assert sum(parameter.numel() for parameter in model.parameters()) == 9_200_896
    trained = sum(p.numel() for block in model.layers[2:] for p in block.parameters())
    assert trained + model.output_head.weight.numel() == 4_600_448


def test_left_out_settings_are_those_of_the_specification() -> None:
    model = StandardTransformer(10)
    config = model.lm.config
    assert (config.dim, model.num_layers, config.num_heads, config.ffn_dim) == (64, 3, 4, 256)
    assert (config.norm_eps, config.rope_theta, config.dropout) == (1e-6, 1e4, 0.0)
    assert all(block.norm == "post" for block in model.layers)
    assert not any("bias" in name for name, _ in model.named_parameters())
    assert all(isinstance(stage.norm, nn.Identity) for stage in model.lm.stages)
    assert StandardTransformer(10, ffn_dim=5).lm.config.ffn_dim == 5


def test_initial_weights_have_the_deviations_of_the_specification() -> None:
    torch.manual_seed(0)
    model = StandardTransformer(2000, dim=64, num_layers=3)
    assert model.embedding.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert model.output_head.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    for name, parameter in model.named_parameters():
        if "proj" in name:
            assert parameter.std().item() == pytest.approx(64**-0.5, rel=0.05), name
        if "norm" in name:
            assert torch.equal(parameter, torch.ones_like(parameter)), name


def test_the_blocks_one_by_one_give_the_states_the_head_and_the_logits() -> None:
    model = deep()
    assert model.num_layers == len(model.layers) == 3
    logits = model.forward_all_layers(IDS)
    assert len(logits) == 3
    state = model.embedding(IDS)
    for layer, block in enumerate(model.layers, start=1):
        state = block(state)
        assert torch.equal(model.forward_to_layer(IDS, layer), state)
        assert torch.equal(model.output_head(state), logits[layer - 1])
    assert torch.equal(model(IDS), logits[-1])
    assert torch.equal(logits[-1], state @ model.output_head.weight.T)
    assert not torch.equal(logits[0], logits[1])


def test_the_head_is_one_and_not_the_embedding() -> None:
    model = deep()
    assert {id(stage.head) for stage in model.lm.stages} == {id(model.output_head)}
    assert model.output_head.weight is not model.embedding.weight


def test_the_states_of_a_layer_cost_that_many_layers() -> None:
    model = deep()
    calls: list[nn.Module] = []
    for block in model.layers:
        block.register_forward_hook(lambda module, *_: calls.append(module))
    model.forward_to_layer(IDS, 2)
    assert calls == model.layers[:2]


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_a_layer_that_is_not_there_cannot_be_asked_for(layer: int) -> None:
    with pytest.raises(ConfigError, match="out of range: the model has 3"):
        deep().forward_to_layer(IDS, layer)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"dim \(10\) must be a multiple of num_heads \(4\)"):
        StandardTransformer(10, dim=10)
    with pytest.raises(ConfigError, match="at least 1, not 0"):
        StandardTransformer(10, num_layers=0)
