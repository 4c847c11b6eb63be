from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from ease import LayerLosses, NonFiniteError, OptimConfig, StagedLM, StopConfig
from ease.training.step import build_step
from model.tiny import random_batches, tiny_model
from training.phases import Pair, Watcher, phase_trainer, same_bits, weights_of


def plain_steps(
    model: StagedLM, batches: list[Pair], weights: dict[int, float], lr: float
) -> tuple[list[float], list[float]]:
    """What anybody would write by hand; the losses, and the gradient norms before clipping."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    losses, norms = [], []
    for x, y in batches:
        loss = torch.zeros(())
        for output in model(x):
            if output.layer in weights:
                logits = output.logits().flatten(0, 1)
                loss = loss + weights[output.layer] * F.cross_entropy(logits, y.flatten())
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


@pytest.mark.parametrize("weights", [{2: 1.0}, {1: 1.5, 2: 2.0}])
def test_the_loop_is_the_one_that_is_written_by_hand(weights: dict[int, float]) -> None:
    batches = random_batches(2, seed=2) * 4
    by_hand = tiny_model()
    wanted, norms = plain_steps(by_hand, batches, weights, lr=0.005)
    assert max(norms) > 1  # clipping mattered
    found: list[float] = []
    trainer = phase_trainer(
        train=batches,
        objective=LayerLosses(weights),
        optim=OptimConfig(lr=0.005),
        stop=StopConfig(max_epochs=1),
        callbacks=[Watcher(lambda step, loss: found.append(loss))],
    )
    trainer.run()
    assert found == pytest.approx(wanted, abs=1e-5)
    assert wanted[-1] < wanted[1] - 0.02  # the same batch: training moved it
    for name, parameter in by_hand.named_parameters():
        torch.testing.assert_close(
            weights_of(trainer.model)[name], parameter.detach(), atol=1e-4, rtol=0
        )


@pytest.mark.parametrize("accumulate", [2, 3, 4])
def test_accumulating_batches_is_one_larger_batch(accumulate: int) -> None:
    small = random_batches(2 * accumulate, batch=2)
    groups = [small[:accumulate], small[accumulate:]]
    large = [
        (torch.cat([x for x, _ in group]), torch.cat([y for _, y in group])) for group in groups
    ]
    results = []
    for batches, count in ((small, accumulate), (large, 1)):
        model = tiny_model()
        trainer = phase_trainer(
            model,
            batches,
            optim=OptimConfig(accumulate=count),
            stop=StopConfig(max_epochs=1),
            optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        )
        report = trainer.run()
        assert (report.steps, trainer.total_steps) == (2, 2)
        results.append((report.best.train_loss, weights_of(model)))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-6)
    for name, weight in results[0][1].items():
        torch.testing.assert_close(weight, results[1][1][name], rtol=0, atol=1e-6)


def test_a_rest_of_batches_makes_a_step_of_its_own() -> None:
    trainer = phase_trainer(
        train=random_batches(5), optim=OptimConfig(accumulate=2), stop=StopConfig(max_epochs=2)
    )
    assert trainer.run().steps == trainer.total_steps == 6


class Poisoned:
    """The usual loss, made useless at one call."""

    layers = (2,)

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind, self.calls = at, kind, 0

    def __call__(self, model: StagedLM, x: Tensor, y: Tensor) -> Tensor:
        self.calls += 1
        loss = LayerLosses({2: 1.0})(model, x, y)
        if self.calls != self.at:
            return loss
        if self.kind == "gradient":  # the square root has none at zero
            return loss + (model.embedding.weight.sum() * 0).sqrt()
        return loss * float(self.kind)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("nan", "the loss is nan"),
        ("inf", "the loss is inf"),
        ("gradient", "the gradient is not finite"),
    ],
)
def test_what_is_not_finite_never_reaches_the_weights(kind: str, what: str) -> None:
    seen: list[dict[str, Tensor]] = []
    trainer = phase_trainer(
        objective=Poisoned(9, kind),
        callbacks=[Watcher(lambda *_: seen.append(weights_of(trainer.model)))],
    )
    place = r"at step 9 of phase small, epoch 2, batch 3; the weights were not touched"
    with pytest.raises(NonFiniteError, match=f"{what} {place}"):
        trainer.run()
    assert len(seen) == 8
    assert same_bits(seen[-1], weights_of(trainer.model))
    moments = trainer.optimizer.state_dict()["state"].values()
    assert all(torch.isfinite(moment["exp_avg"]).all() for moment in moments)


def test_bf16_autocast_trains_nearly_the_same() -> None:
    losses = []
    for precision in ("fp32", "bf16"):
        optim = OptimConfig(lr=0.001, precision=precision)  # type: ignore[arg-type]
        report = phase_trainer(optim=optim).run()
        losses.append([look.train_loss for look in report.evaluations])
    assert losses[1] == pytest.approx(losses[0], rel=0.03)
    assert losses[1] != losses[0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need an NVIDIA GPU")
def test_a_captured_step_is_the_plain_one_and_still_stops_what_is_not_finite() -> None:
    from ease.training import build_optimizer
    from ease.training.step import GraphedTrainStep, TrainStep

    batches, losses = random_batches(8), []
    for kind in (TrainStep, GraphedTrainStep):
        model = tiny_model().cuda()
        step = kind(model, LayerLosses({2: 1.0}), build_optimizer(model, 0.01, 0.01), 1.0)
        losses.append([step([batch]) for batch in batches])
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert isinstance(step, GraphedTrainStep)
    assert step.replaying
    with torch.no_grad():
        model.embedding.weight[0] = torch.nan
    before = weights_of(model)
    with pytest.raises(NonFiniteError):
        step([(torch.zeros_like(batches[0][0]), batches[0][1])])
    assert all(
        torch.equal(p.nan_to_num(), before[n].nan_to_num()) for n, p in weights_of(model).items()
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need an NVIDIA GPU")
def test_groups_of_another_size_and_longer_sequences_may_stand_between_captured_steps() -> None:
    from ease.training import build_optimizer
    from ease.training.step import GraphedTrainStep, TrainStep

    pairs, losses = random_batches(30), []
    groups = [pairs[i : i + 2] for i in range(0, 30, 2)]
    groups[7] = groups[7][:1]  # the rest of an epoch
    for kind in (TrainStep, GraphedTrainStep):
        model = tiny_model().cuda()
        step = kind(model, LayerLosses({2: 1.0}), build_optimizer(model, 0.01, 0.01), 1.0)
        losses.append([])
        for number, group in enumerate(groups):
            losses[-1].append(step(group))
            if number == 10:  # an evaluation on longer text makes a longer table of positions
                model(torch.zeros(1, 500, dtype=torch.long, device="cuda"))
                torch.full((1 << 20,), torch.nan, device="cuda")  # over whatever was let go
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)


def test_a_cpu_never_captures() -> None:
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=False)
    step = build_step(model, LayerLosses({2: 1.0}), optimizer, 1.0)
    assert type(step).__name__ == "TrainStep"
