from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ease import DataError, OptimConfig, PhaseTrainer, StagedLM, StopConfig
from ease.training import Evaluation
from model.tiny import tiny_model
from training.phases import Watcher, phase_trainer, same_bits, through_a_file, weights_of


class StoppedError(Exception):
    pass


def dropping(seed: int = 0) -> StagedLM:
    return tiny_model(seed=seed, dropout=0.4)


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    stop = StopConfig(
        max_epochs=draw(st.integers(1, 3)),
        max_steps=draw(st.none() | st.integers(1, 12)),
        patience=draw(st.none() | st.integers(1, 3)),
        evaluate_every=draw(st.none() | st.integers(1, 8)),
    )
    optim = OptimConfig(
        lr=0.02,
        accumulate=draw(st.sampled_from([1, 2, 3, 4])),  # of six batches an epoch
        warmup_steps=draw(st.integers(0, 3)),
        schedule=draw(st.sampled_from(["constant", "cosine"])),
    )
    return {"stop": stop, "optim": optim}


def interrupted(plan: dict[str, Any], step: int | None, look: int | None) -> dict[str, Any] | None:
    """The state of a phase stopped at a step or in an evaluation; None where it got to its end."""

    def at_step(now: int, loss: float) -> None:
        if now == step:
            raise StoppedError

    def at_evaluation(evaluation: Evaluation) -> None:
        if len(trainer.evaluations) == look:
            raise StoppedError

    torch.manual_seed(3)
    trainer = phase_trainer(dropping(), callbacks=[Watcher(at_step, at_evaluation)], **plan)
    try:
        trainer.run()
    except StoppedError:
        return through_a_file(trainer.state_dict())
    return None


@settings(max_examples=60)
@given(plan=plans(), where=st.integers(1, 20), between=st.booleans())
def test_an_interrupted_phase_goes_on_bit_for_bit(
    plan: dict[str, Any], where: int, between: bool
) -> None:
    torch.manual_seed(3)
    whole = phase_trainer(dropping(), **plan)
    wanted = whole.run()
    state = interrupted(plan, *((where, None) if between else (None, where)))
    if state is None:
        return
    torch.manual_seed(99)
    resumed = phase_trainer(dropping(seed=7), **plan)
    resumed.load_state_dict(state)
    assert resumed.run() == wanted
    assert same_bits(weights_of(resumed.model), weights_of(whole.model))
    assert resumed.progress == whole.progress


def test_a_phase_may_be_interrupted_at_every_step() -> None:
    plan = {"stop": StopConfig(max_epochs=2, patience=None), "optim": OptimConfig()}
    torch.manual_seed(3)
    whole = phase_trainer(dropping(), **plan)
    wanted = whole.run()
    assert wanted.steps == 12
    state = None
    for step in range(1, 13):

        def stop_here(now: int, loss: float, step: int = step) -> None:
            if now == step:
                raise StoppedError

        torch.manual_seed(3 if state is None else 1000 + step)
        trainer = phase_trainer(dropping(), callbacks=[Watcher(stop_here)], **plan)
        if state is not None:
            trainer.load_state_dict(state)
        with pytest.raises(StoppedError):
            trainer.run()
        assert trainer.progress.step == step
        state = through_a_file(trainer.state_dict())
    last = phase_trainer(dropping(seed=1), **plan)
    assert state is not None
    last.load_state_dict(state)
    assert last.run() == wanted
    assert same_bits(weights_of(last.model), weights_of(whole.model))


def test_a_finished_phase_does_not_train_again() -> None:
    whole = phase_trainer(dropping())
    wanted = whole.run()
    steps: list[int] = []
    again = phase_trainer(
        dropping(seed=1), callbacks=[Watcher(lambda step, loss: steps.append(step))]
    )
    again.load_state_dict(through_a_file(whole.state_dict()))
    assert again.run() == wanted
    assert steps == []
    assert same_bits(weights_of(again.model), weights_of(whole.model))


def test_a_position_beyond_the_batches_is_refused() -> None:
    def stopped(trainer: PhaseTrainer) -> dict[str, Any]:
        state = trainer.state_dict()
        return {**state, "feed": {"taken": 100, "place": {"epoch": 0, "position": 100}}}

    trainer = phase_trainer()
    with pytest.raises(DataError, match="belongs to other data"):
        trainer.load_state_dict(stopped(trainer))


def test_a_saved_state_is_not_changed_by_training_on() -> None:
    trainer = phase_trainer(dropping(), stop=StopConfig(max_epochs=1))
    state = through_a_file(trainer.state_dict())
    kept = trainer.state_dict()["weights"]
    trainer.run()
    assert same_bits(kept, state["weights"])
    assert not same_bits(kept, weights_of(trainer.model))


def test_a_phase_stopped_at_the_rest_of_an_epoch_goes_on_bit_for_bit() -> None:
    plan = {
        "stop": StopConfig(max_epochs=2, patience=None),
        "optim": OptimConfig(accumulate=4),  # of six batches: a step of four and one of two
    }
    torch.manual_seed(3)
    wanted = phase_trainer(dropping(), **plan).run()
    state = interrupted(plan, step=2, look=None)
    assert state is not None
    resumed = phase_trainer(dropping(seed=7), **plan)
    resumed.load_state_dict(state)
    assert resumed.run() == wanted
