from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ease import ConfigError, DeepSupervisionTransformer, OptimConfig, Trainer, TrainingConfig
from ease.training import build_optimizer
from ease.training.optim import learning_rate_factor, set_learning_rate
from model.tiny import random_batches, tiny_model


@given(warmup=st.integers(0, 20), rest=st.integers(1, 50), cosine=st.booleans())
def test_the_rate_rises_in_a_line_and_then_stays_or_falls_to_a_tenth(
    warmup: int, rest: int, cosine: bool
) -> None:
    config = OptimConfig(warmup_steps=warmup, schedule="cosine" if cosine else "constant")
    total = warmup + rest
    factors = [learning_rate_factor(config, step, total) for step in range(total + 1)]
    rising, falling = factors[:warmup], factors[warmup:]
    assert rising == pytest.approx([(step + 1) / (warmup + 1) for step in range(warmup)])
    assert falling[0] == 1.0
    if not cosine:
        assert set(falling) == {1.0}
        return
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == pytest.approx(0.1)
    assert learning_rate_factor(config, total + 100, total) == pytest.approx(0.1)
    # A cosine is point-symmetric about its middle.
    mirrored = [1.1 - factor for factor in reversed(falling)]
    assert falling == pytest.approx(mirrored)
    if rest % 2 == 0 and rest > 2:
        assert falling[rest // 4] > 1 - 0.9 / 4  # flat at first, unlike a line


def test_a_cosine_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"stop\.max_steps or stop\.max_epochs"):
        learning_rate_factor(OptimConfig(schedule="cosine"), 0, None)
    assert learning_rate_factor(OptimConfig(), 10, None) == 1.0


def test_layers_learn_at_their_own_rate_and_everything_else_at_the_base_rate() -> None:
    model = DeepSupervisionTransformer(23, dim=8, num_layers=3, num_heads=2)
    scales = {1: 0.1, 3: 0.0}
    trainer = Trainer(TrainingConfig(layer_weights={3: 1.0}, layer_lr_scales=scales), vocab_size=23)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer.train_epoch(model, random_batches(1), trainer.create_optimizer(model, base_lr=0.01))
    scale_of = {
        id(p): scales.get(layer, 1.0)
        for layer, block in enumerate(model.layers, start=1)
        for p in block.parameters()
    }
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        rate = 0.01 * scale_of.get(id(parameter), 1.0)
        # The first step of AdamW: its two averages are the gradient and its square.
        step = parameter.grad / (parameter.grad.abs() + 1e-8)
        wanted = before[name] * (1 - 0.01 * rate) - rate * step
        torch.testing.assert_close(parameter.detach(), wanted, rtol=1e-5, atol=1e-6, msg=name)
        assert torch.equal(parameter, before[name]) == (rate == 0)


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({0: 0.5}, "layer 0 is out of range: the model has 2"),
        ({3: 0.5}, "layer 3 is out of range"),
        ({1: -1.0}, "scale of layer 1 is -1.0"),
        ({1: float("nan")}, "scale of layer 1 is nan"),
    ],
)
def test_scales_that_no_layer_can_have_are_refused(scales: dict[int, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_optimizer(tiny_model(), 0.1, 0.0, scales)


def test_frozen_weights_are_left_out_and_every_other_weight_is_in_once() -> None:
    model = tiny_model()
    model.embedding.weight.requires_grad_(False)
    optimizer = build_optimizer(model, 0.1, 0.25, {1: 0.5})
    found = [id(p) for group in optimizer.param_groups for p in group["params"]]
    wanted = [id(p) for p in model.parameters() if p is not model.embedding.weight]
    assert sorted(found) == sorted(wanted)
    assert all(group["weight_decay"] == 0.25 for group in optimizer.param_groups)


def test_a_new_rate_keeps_the_scales() -> None:
    optimizer = build_optimizer(tiny_model(), 0.1, 0.0, {1: 0.5, 2: 0.25})
    set_learning_rate(optimizer, 0.4)
    assert sorted(group["lr"] for group in optimizer.param_groups) == [0.1, 0.2, 0.4]


def test_a_cpu_trains_in_float32_and_a_gpu_in_bf16_unless_told_otherwise() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert OptimConfig().autocast_dtype(cpu) is None
    assert OptimConfig().autocast_dtype(gpu) is torch.bfloat16
    assert OptimConfig(precision="fp32").autocast_dtype(gpu) is None
    assert OptimConfig(precision="bf16").autocast_dtype(cpu) is torch.bfloat16


@pytest.mark.parametrize(
    "wrong",
    [{"lr": 0.0}, {"lr": float("nan")}, {"weight_decay": -1.0}, {"accumulate": 0}, {"momentum": 1}],
)
def test_settings_that_cannot_train_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        OptimConfig.model_validate(wrong)


@pytest.mark.parametrize(
    ("lr", "weight_decay", "name"),
    [
        (float("nan"), 0.0, "learning rate"),
        (-1.0, 0.0, "learning rate"),
        (float("inf"), 0.0, "learning rate"),
        (0.1, float("nan"), "weight decay"),
        (0.1, -0.5, "weight decay"),
    ],
)
def test_rates_that_would_spoil_the_weights_are_refused(
    lr: float, weight_decay: float, name: str
) -> None:
    with pytest.raises(ConfigError, match=f"the {name} is"):
        build_optimizer(tiny_model(), lr, weight_decay)
