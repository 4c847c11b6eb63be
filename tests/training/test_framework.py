from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from ease import (
    Batches,
    ConfigError,
    DataError,
    DeepSupervisionTransformer,
    LayerLosses,
    LeakError,
    SoftmaxConfidence,
    StageConfig,
    StandardTransformer,
    Trainer,
    TrainingConfig,
    create_deep_supervision_config,
    create_standard_config,
    evaluate_exits,
    evaluate_routed,
)
from ease.model.head import Head
from model.tiny import random_batches
from training.phases import Pair, blocks

TRAIN, HELD_OUT = random_batches(4), random_batches(2, seed=7)
ROUTED = TrainingConfig(
    stages=[StageConfig((1, 2), 0.7), StageConfig((3, 3), 0.3)],
    routing_threshold=0.06,
    exit_layer=2,
)


def deep() -> DeepSupervisionTransformer:
    torch.manual_seed(0)
    return DeepSupervisionTransformer(23, dim=8, num_layers=3, num_heads=2)


def weights_of(model: torch.nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def contrary(batches: list[Pair]) -> list[Pair]:
    """Held-out data that gets worse with everything that is learned from `batches`."""
    return [(x, (y + 1) % 23) for x, y in batches]


def fit(config: TrainingConfig, val: list[Pair], **options: Any) -> tuple[Any, dict[str, Any]]:
    model, trainer = deep(), Trainer(config, vocab_size=23)
    result = trainer.train_with_early_stopping(
        model=model,
        train_batches=TRAIN,
        val_batches=val,
        optimizer=trainer.create_optimizer(model, base_lr=0.02),
        **options,
    )
    return model, result


def test_two_spellings_train_alike_bit_for_bit() -> None:
    losses, weights = [], []
    for config in (
        TrainingConfig(stages=[StageConfig((1, 2), 0.7), StageConfig((3, 3), 0.3)]),
        TrainingConfig(layer_weights={1: 0, 2: 0.7, 3: 0.3}),
    ):
        model, trainer = deep(), Trainer(config, vocab_size=23)
        optimizer = trainer.create_optimizer(model, base_lr=0.02)
        losses.append([trainer.train_epoch(model, TRAIN, optimizer) for _ in range(2)])
        weights.append(weights_of(model))
    assert losses[0] == losses[1]
    assert losses[0][1] < losses[0][0]
    assert all(map(torch.equal, *weights))


def test_an_epoch_returns_the_mean_of_its_batch_losses() -> None:
    trainer, model = Trainer(create_standard_config(3), vocab_size=23), deep()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    wanted = [trainer.compute_loss(model, x, y).item() for x, y in TRAIN]
    assert trainer.train_epoch(model, iter(TRAIN), optimizer) == pytest.approx(sum(wanted) / 4)


def test_the_fast_path_reads_one_head(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Head] = []
    loss = Head.loss

    def counted(head: Head, features: Tensor, targets: Tensor, scale: Tensor | None) -> Tensor:
        read.append(head)
        return loss(head, features, targets, scale)

    monkeypatch.setattr(Head, "loss", counted)
    x, y = TRAIN[0]
    for config, heads in (
        (create_standard_config(3), 1),
        (TrainingConfig(layer_weights={1: 0, 2: 0, 3: 1.0}), 1),
        (create_deep_supervision_config(3), 3),
    ):
        read.clear()
        found = Trainer(config, vocab_size=23).compute_loss(deep(), x, y)
        assert len(read) == heads
        assert found.item() == LayerLosses(config.loss_weights)(deep().lm, x, y).item()


def test_evaluation_without_routing_reads_the_last_layer() -> None:
    stats = Trainer(create_deep_supervision_config(3), vocab_size=23).evaluate(deep(), HELD_OUT)
    figures = evaluate_exits(deep().lm, HELD_OUT)[3]
    assert stats == {
        "ppl": figures.ppl,
        "acc": figures.acc,
        "shallow_ratio": 0.0,
        "compute_cost": 1.0,
    }


def test_evaluation_with_routing_reads_confident_tokens_at_the_exit_layer() -> None:
    model = deep()
    Trainer(ROUTED, vocab_size=23).train_epoch(
        model, TRAIN, torch.optim.AdamW(model.parameters(), lr=0.02)
    )
    with torch.no_grad():
        confidence = torch.cat(
            [model.forward_all_layers(x)[1].softmax(-1).amax(-1) for x, _ in HELD_OUT]
        )
    threshold = confidence.quantile(0.4).item()
    config = dataclasses.replace(ROUTED, routing_threshold=threshold)
    stats = Trainer(config, vocab_size=23).evaluate(model, HELD_OUT)
    shallow = stats["shallow_ratio"]
    assert shallow == pytest.approx((confidence >= threshold).float().mean().item())
    assert 0.55 < shallow < 0.65
    assert stats["compute_cost"] == pytest.approx((shallow * 2 + (1 - shallow) * 3) / 3)
    routed = evaluate_routed(model.lm, HELD_OUT, SoftmaxConfidence(), {2: threshold})
    assert (stats["ppl"], stats["acc"]) == (routed.figures.ppl, routed.figures.acc)
    assert stats["ppl"] != evaluate_exits(model.lm, HELD_OUT)[3].ppl


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_ends_training_and_the_best_weights_come_back(patience: int) -> None:
    val = contrary(TRAIN)
    model, result = fit(create_standard_config(3), val, patience=patience, verbose=False)
    assert list(result) == [
        "train_losses",
        "val_losses",
        "val_accs",
        "best_epoch",
        "total_epochs",
        "stopped_early",
    ]
    epochs, best = result["total_epochs"], result["best_epoch"]
    assert result["stopped_early"] is True
    assert epochs == best + patience
    assert [len(result[key]) for key in ("train_losses", "val_losses", "val_accs")] == [epochs] * 3
    assert result["val_losses"][best - 1] == min(result["val_losses"])
    stats = Trainer(create_standard_config(3), vocab_size=23).evaluate(model, val)
    assert math.log(stats["ppl"]) == pytest.approx(result["val_losses"][best - 1])
    assert stats["acc"] == result["val_accs"][best - 1]


def test_training_that_keeps_improving_uses_all_its_epochs() -> None:
    _, result = fit(create_standard_config(3), TRAIN, max_epochs=4, verbose=False)
    assert (result["total_epochs"], result["best_epoch"]) == (4, 4)
    assert result["stopped_early"] is False
    assert result["train_losses"] == sorted(result["train_losses"], reverse=True)


def test_early_stopping_goes_by_the_routed_loss() -> None:
    model, result = fit(ROUTED, HELD_OUT, max_epochs=2, patience=5, verbose=False)
    stats = Trainer(ROUTED, vocab_size=23).evaluate(model, HELD_OUT)
    assert stats["shallow_ratio"] > 0
    assert min(result["val_losses"]) == pytest.approx(math.log(stats["ppl"]))


def test_what_the_console_says_is_what_the_result_says(capsys: pytest.CaptureFixture[str]) -> None:
    _, result = fit(create_standard_config(3), contrary(TRAIN), max_epochs=9, patience=2)
    wanted, best = [], 0
    for epoch in range(1, result["total_epochs"] + 1):
        train, val = result["train_losses"][epoch - 1], result["val_losses"][epoch - 1]
        wanted.append(
            f"Epoch {epoch}/9 - Train PPL: {math.exp(train):.4f} | Val PPL: {math.exp(val):.4f} | "
            f"Val Acc: {100 * result['val_accs'][epoch - 1]:.2f}%"
        )
        if val == min(result["val_losses"][:epoch]):
            best = epoch
            wanted.append(f"  → New best model (val_loss: {val:.4f})")
        else:
            wanted.append(f"  → No improvement ({epoch - best}/2)")
    wanted += [
        "",
        f"Early stopping triggered at epoch {best + 2}",
        f"Best model was at epoch {best}",
        "",
        f"Restored best model from epoch {best}",
    ]
    assert capsys.readouterr().out.splitlines() == wanted


def test_a_quiet_trainer_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    fit(create_standard_config(3), TRAIN, max_epochs=1, verbose=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("split", ["test", "gate"])
def test_the_trainer_reads_neither_test_nor_gate(split: str) -> None:
    trainer, model = Trainer(create_standard_config(3), vocab_size=23), deep()
    optimizer = trainer.create_optimizer(model, base_lr=0.02)
    named = Batches(blocks(split), 2)
    before = weights_of(model)
    for leak in (
        lambda: trainer.train_epoch(model, named, optimizer),
        lambda: trainer.evaluate(model, named),
        lambda: trainer.train_with_early_stopping(model, named, HELD_OUT, optimizer),
        lambda: trainer.train_with_early_stopping(model, TRAIN, named, optimizer),
    ):
        with pytest.raises(LeakError, match=f"may not read '{split}'"):
            leak()
    assert all(map(torch.equal, before, weights_of(model)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (create_standard_config(4), "layer 4 is out of range: the model has 3"),
        (TrainingConfig(layer_weights={3: 1}, layer_lr_scales={9: 1}), "layer 9 is out of range"),
        (
            TrainingConfig(layer_weights={3: 1}, routing_threshold=0.5, exit_layer=3),
            "exit_layer=3 is the last layer",
        ),
        (TrainingConfig(layer_weights={3: 1}, routing_threshold=0.5, exit_layer=7), "layer 7"),
    ],
)
def test_layers_that_the_model_does_not_have_are_refused(
    config: TrainingConfig, message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        fit(config, HELD_OUT, max_epochs=1, verbose=False)


def test_another_vocabulary_and_no_data_are_refused() -> None:
    trainer, model = Trainer(create_standard_config(3), vocab_size=24), deep()
    with pytest.raises(ConfigError, match="the model has 23 types, the Trainer 24"):
        trainer.evaluate(model, HELD_OUT)
    trainer = Trainer(create_standard_config(3), vocab_size=23)
    optimizer = trainer.create_optimizer(model, base_lr=0.02)
    with pytest.raises(DataError, match="train_batches is empty"):
        trainer.train_epoch(model, [], optimizer)
    with pytest.raises(DataError, match="nothing to evaluate"):
        trainer.evaluate(model, [])


def test_a_staged_model_trains_as_its_classic_face_does() -> None:
    torch.manual_seed(0)
    face = StandardTransformer(23, dim=8, num_layers=3, num_heads=2)
    trainer = Trainer(create_standard_config(3), vocab_size=23)
    losses = [
        trainer.train_epoch(model, TRAIN, trainer.create_optimizer(model, base_lr=0.02))
        for model in (face, deep().lm)
    ]
    assert losses[0] == losses[1]
