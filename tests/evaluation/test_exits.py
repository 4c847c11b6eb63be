from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ease import ConfigError, DataError, Figures, StagedLM, StageShape, evaluate_exits
from ease.model import chunked_loss
from model.tiny import random_batches, random_ids, randomise, tiny_model


def three_exits(**settings: float) -> StagedLM:
    shapes = [StageShape(layers=1), StageShape(layers=2, norm="post"), StageShape(layers=1)]
    return randomise(tiny_model(*shapes, **settings), 1)


@torch.no_grad()
def plain_figures(model: StagedLM, x: torch.Tensor, y: torch.Tensor) -> dict[int, Figures]:
    """Token by token, in float64."""
    wanted = {}
    for output in model(x):
        logits = output.logits().double()
        losses, right = [], 0
        for row in range(x.shape[0]):
            for t in range(x.shape[1]):
                probabilities = logits[row, t].softmax(dim=0)
                losses.append(-math.log(probabilities[y[row, t]].item()))
                right += int(probabilities.argmax().item() == y[row, t].item())
        wanted[output.layer] = Figures(
            math.fsum(losses) / len(losses), right / y.numel(), y.numel()
        )
    return wanted


@settings(max_examples=25)
@given(rows=st.integers(1, 6), seq=st.integers(1, 5), seed=st.integers(0, 1000))
def test_figures_are_those_of_every_token_once_whatever_the_batch_size(
    rows: int, seq: int, seed: int
) -> None:
    model = three_exits().eval()
    x, y = random_ids(rows, seq, seed=seed), random_ids(rows, seq, seed=seed + 1)
    wanted = plain_figures(model, x, y)
    for size in {1, 2, 4, rows}:  # the last batch is often ragged
        batches = zip(x.split(size), y.split(size), strict=True)
        found = evaluate_exits(model, batches)
        assert list(found) == [1, 3, 4]
        for layer, figures in found.items():
            assert figures.loss == pytest.approx(wanted[layer].loss, rel=1e-5)
            assert figures.acc == wanted[layer].acc
            assert figures.tokens == rows * seq
            assert figures.ppl == pytest.approx(math.exp(wanted[layer].loss), rel=1e-4)


def test_figures_do_not_depend_on_the_chunks_of_the_head() -> None:
    batches = random_batches(2)
    whole = evaluate_exits(three_exits(), batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_loss, "chunk_rows", lambda *_: 2)
        cut = evaluate_exits(three_exits(), batches)
    for layer, figures in whole.items():
        assert cut[layer].loss == pytest.approx(figures.loss, rel=1e-6)
        assert cut[layer].acc == figures.acc


def test_only_the_exits_asked_for_are_read_and_layers_above_them_do_not_run() -> None:
    model, ran = three_exits(), []
    for layer, block in enumerate(model.layers, start=1):
        block.register_forward_hook(lambda *_, layer=layer: ran.append(layer))
    batches = random_batches(1)
    found = evaluate_exits(model, batches, layers=[3])
    assert list(found) == [3]
    assert ran == [1, 2, 3]
    assert found[3] == evaluate_exits(model, batches)[3]


@pytest.mark.parametrize("layer", [0, 2, 5])
def test_a_layer_without_exit_cannot_be_evaluated(layer: int) -> None:
    with pytest.raises(ConfigError, match=f"layer {layer}"):
        evaluate_exits(three_exits(), random_batches(1), layers=[layer])


def test_no_batch_is_an_error_and_not_a_perfect_score() -> None:
    with pytest.raises(DataError, match="nothing to evaluate"):
        evaluate_exits(three_exits(), [])


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_comes_back_and_dropout_is_off_meanwhile(training: bool) -> None:
    batches = random_batches(2)
    model = three_exits(dropout=0.5).train(training)
    found = evaluate_exits(model, batches)
    assert all(module.training == training for module in model.modules())
    assert found == evaluate_exits(three_exits(), batches)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled()


def test_the_mode_comes_back_after_an_error_too() -> None:
    model = three_exits().train()
    x, y = random_batches(1)[0]
    with pytest.raises(DataError):
        evaluate_exits(model, [(x, y), (x + 1000, y)])
    assert model.training
    assert torch.is_grad_enabled()


def test_perplexity_overflows_to_infinity_and_json_has_none_of_it() -> None:
    assert Figures(math.log(5), 0.5, 10).ppl == pytest.approx(5)
    assert Figures(800.0, 0.0, 1).ppl == math.inf
    assert Figures(math.nan, 0.0, 1).as_json() == {
        "ppl": None,
        "acc": 0.0,
        "loss": None,
        "tokens": 1,
    }
    assert Figures(800.0, 0.25, 4).as_json()["ppl"] is None
