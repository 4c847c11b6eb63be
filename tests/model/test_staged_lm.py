from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ease import ConfigError, ModelConfig, StagedLM, StageShape
from model.plain_forward import plain_logits
from model.tiny import random_ids, randomise, tiny_config, tiny_model


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    """Every switch of the model, in small."""
    kv_heads = draw(st.integers(1, 2))
    stages = [
        StageShape(
            layers=draw(st.integers(1, 2)),
            norm=draw(st.sampled_from(["pre", "post"])),
            final_norm=draw(st.booleans()),
            head=draw(st.sampled_from(["own", "tied"] + ["shared"] * (number > 0))),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    return tiny_config(
        *stages,
        dim=draw(st.sampled_from([6, 8])),
        num_kv_heads=kv_heads,
        num_heads=kv_heads * draw(st.integers(1, 3)),
        head_dim=draw(st.sampled_from([2, 4, 6])),
        ffn_dim=draw(st.integers(1, 12)),
        norm_eps=draw(st.sampled_from([1e-6, 1e-2])),
        rope_theta=draw(st.sampled_from([100.0, 10_000.0])),
        qkv_bias=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
    )


@settings(max_examples=30)
@given(config=configs(), seq=st.integers(1, 9), seed=st.integers(0, 2**16))
def test_every_exit_agrees_with_a_plain_forward_pass(
    config: ModelConfig, seq: int, seed: int
) -> None:
    model = randomise(StagedLM(config), seed)
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    ids = random_ids(2, seq, seed=seed)
    wanted = [plain_logits(weights, config, row.numpy()) for row in ids]
    # A norm of a small state magnifies float32's rounding; the formulas show in float64.
    for dtype, tolerance in ((torch.float32, 1e-3), (torch.float64, 1e-5)):
        outputs = model.to(dtype)(ids)
        assert tuple(output.layer for output in outputs) == config.exits
        for number, output in enumerate(outputs):
            logits = np.stack([row[number] for row in wanted])
            allowed = tolerance * max(1.0, float(np.abs(logits).max()))
            found = output.logits().detach().double().numpy()
            np.testing.assert_allclose(found, logits, rtol=0, atol=allowed)


@settings(max_examples=30)
@given(config=configs(), changed=st.integers(0, 7), seed=st.integers(0, 2**16))
def test_a_token_never_changes_what_comes_before_it(
    config: ModelConfig, changed: int, seed: int
) -> None:
    model = randomise(StagedLM(config), seed)
    ids = random_ids(1, 8, seed=seed)
    other = ids.clone()
    other[0, changed] = (ids[0, changed] + 1) % config.vocab_size
    with torch.no_grad():
        for one, two in zip(model(ids), model(other), strict=True):
            assert torch.equal(one.left[:, :changed], two.left[:, :changed])
            assert not torch.equal(one.left[:, changed:], two.left[:, changed:])


def test_an_output_holds_what_entered_what_left_and_the_output_before_it() -> None:
    model = tiny_model(*[StageShape(layers=2)] * 3)
    ids = random_ids(2, 5)
    outputs = model(ids)
    assert torch.equal(outputs[0].entered, model.embedding(ids))
    assert outputs[0].previous is None
    for before, output in itertools.pairwise(outputs):
        assert output.entered is before.left
        assert output.previous is before
    state = model.start(ids)
    for layer, block in enumerate(model.layers, start=1):
        state = block(state)
        if layer in model.exits:
            assert torch.equal(state, outputs[model.exits.index(layer)].left)


@pytest.mark.parametrize(("until", "ran"), [(2, 2), (3, 3), (6, 6), (None, 6)])
def test_until_runs_only_the_layers_up_to_it(until: int | None, ran: int) -> None:
    model = tiny_model(StageShape(layers=2), StageShape(layers=1), StageShape(layers=3))
    calls: list[nn.Module] = []
    for block in model.layers:
        block.register_forward_hook(lambda module, *_: calls.append(module))
    outputs = model(random_ids(1, 4), until=until)
    assert calls == model.layers[:ran]
    assert outputs[-1].layer == ran


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (0, "layer 0 is out of range: the model has 3"),
        (4, "out of range"),
        (1, "layer 1 has no exit: this model's exits are at 2, 3"),
    ],
)
def test_a_layer_without_an_exit_cannot_be_asked_for(layer: int, message: str) -> None:
    model = tiny_model(StageShape(layers=2), StageShape(layers=1))
    with pytest.raises(ConfigError, match=message):
        model(random_ids(1, 4), until=layer)


def test_a_short_sequence_after_a_long_one_and_the_other_way_round() -> None:
    ids = random_ids(1, 40)
    fresh, used = tiny_model(), tiny_model()
    whole = fresh(ids)[-1].left
    for seq in (3, 40, 7):
        torch.testing.assert_close(used(ids[:, :seq])[-1].left, whole[:, :seq])


def test_dropout_acts_in_training_only() -> None:
    model = tiny_model(dropout=0.5)
    ids = random_ids(1, 6)
    first, second = model(ids)[-1].left, model(ids)[-1].left
    assert not torch.equal(first, second)
    model.eval()
    assert torch.equal(model(ids)[-1].left, model(ids)[-1].left)
    assert torch.equal(model(ids)[-1].left, tiny_model()(ids)[-1].left)


def test_pre_norm_branches_start_smaller_the_deeper_the_model() -> None:
    model = tiny_model(
        StageShape(layers=2), StageShape(layers=2, norm="post"), dim=64, ffn_dim=256, head_dim=32
    )
    for number, block in enumerate(model.layers):
        shrink = 8**-0.5 if number < 2 else 1.0
        for linear, factor in (
            (block.attention.qkv_proj, 1.0),
            (block.feed_forward.up_proj, 1.0),
            (block.attention.o_proj, shrink),
            (block.feed_forward.down_proj, shrink),
        ):
            assert linear.weight.std().item() == pytest.approx(64**-0.5 * factor, rel=0.05)


def test_a_tied_head_is_the_embedding_and_keeps_its_scale() -> None:
    model = tiny_model(
        StageShape(layers=1, head="tied"), StageShape(layers=1, head="shared"), vocab_size=2000
    )
    for stage in model.stages:
        assert stage.head.weight is model.embedding.weight
    assert model.embedding.weight.std().item() == pytest.approx(0.02, rel=0.03)
    assert not any("head" in name for name, _ in model.named_parameters())


def test_heads_are_counted_once_however_many_share_them() -> None:
    own, shared = StageShape(layers=1), StageShape(layers=1, head="shared")
    tied = StageShape(layers=1, head="tied")
    assert tiny_model(own, own).num_parameters() - tiny_model(own, shared).num_parameters() == 184
    assert tiny_model(own, own).num_parameters() - tiny_model(tied, tied).num_parameters() == 368


def test_a_model_in_bf16_keeps_its_positions() -> None:
    model = tiny_model().bfloat16()
    model(random_ids(1, 700))
    cos, sin = model.layers[0].attention.rotary.tables[-1]
    angles = torch.outer(
        torch.arange(700.0, dtype=torch.float64), 10_000.0 ** -torch.tensor([0.0, 0.5])
    )
    assert cos.dtype == torch.float32
    torch.testing.assert_close(cos[:700, :2].double(), angles.cos(), atol=1e-6, rtol=0)
    torch.testing.assert_close(sin[:700, 2:].double(), angles.sin(), atol=1e-6, rtol=0)


def test_a_longer_sequence_does_not_move_the_table_that_a_graph_reads() -> None:
    model = tiny_model()
    short, long = random_ids(1, 4), random_ids(1, 64)
    model(short)
    rotary = model.layers[0].attention.rotary
    first = rotary.tables[0][0]
    before = model(short)[-1].logits()
    model(long)
    assert rotary.tables[0][0] is first
    torch.testing.assert_close(model(short)[-1].logits(), before, atol=0, rtol=0)


def test_one_seed_gives_the_same_layers_whatever_the_exits() -> None:
    one = tiny_model(StageShape(layers=2), seed=3)
    two = tiny_model(StageShape(layers=1), StageShape(layers=1), seed=3)
    for left, right in zip(one.layers, two.layers, strict=True):
        for first, second in zip(left.parameters(), right.parameters(), strict=True):
            assert torch.equal(first, second)
    assert torch.equal(one.embedding.weight, two.embedding.weight)
