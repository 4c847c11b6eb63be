from __future__ import annotations

import numpy as np
import pytest
import torch

from ease import (
    Batches,
    Blocks,
    DataError,
    StandardTransformer,
    Trainer,
    create_standard_config,
    evaluate_exits,
)

GOOD = torch.tensor([[0, 9, 3]])
BAD = {
    "an id above": (torch.tensor([[0, 10, 3]]), GOOD, "token ids must be from 0 to 9: found 0"),
    "an id below": (GOOD, torch.tensor([[0, -100, 3]]), "found -100 to 3"),
    "two shapes": (GOOD, GOOD.T, r"not \(1, 3\) and \(3, 1\)"),
    "one dimension": (GOOD[0], GOOD[0], r"not \(3,\) and \(3,\)"),
    "nothing": (GOOD[:0], GOOD[:0], r"not \(0, 3\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_batch_that_no_model_can_read_is_a_data_error_everywhere(name: str) -> None:
    x, y, message = BAD[name]
    model = StandardTransformer(vocab_size=10, dim=8, num_layers=2, num_heads=2)
    trainer = Trainer(create_standard_config(2), vocab_size=10)
    optimizer = trainer.create_optimizer(model, base_lr=1e-3)
    with pytest.raises(DataError, match=message):
        trainer.compute_loss(model, x, y)
    with pytest.raises(DataError, match=message):
        trainer.train_epoch(model, [(x, y)], optimizer)
    with pytest.raises(DataError, match=message):
        trainer.train_with_early_stopping(model, [(x, y)], [(GOOD, GOOD)], optimizer)
    with pytest.raises(DataError, match=message):
        trainer.evaluate(model, [(x, y)])
    with pytest.raises(DataError, match=message):
        evaluate_exits(model, [(x, y)])


def test_a_loop_that_was_left_early_does_not_shorten_the_next() -> None:
    batches = Batches(Blocks(np.arange(41, dtype=np.int32), 4, "train"), 3)
    next(iter(batches))
    assert len(list(batches)) == len(batches) == 4
    next(iter(batches))
    assert sum(x.numel() for x, _ in batches) == 40
