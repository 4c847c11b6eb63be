from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ease.data import Batches, Blocks
from ease.data.packing import pack
from ease.data.tokenizers import ByteTokenizer, WordTokenizer
from ease.errors import DataError


def blocks(tokens: int, seq_len: int) -> Blocks:
    return Blocks(np.arange(tokens, dtype=np.int32), seq_len, "train", "honest")


@given(documents=st.lists(st.text("ab é"), min_size=1), limit=st.none() | st.integers(0, 30))
def test_the_end_of_text_stands_between_documents_only(
    documents: list[str], limit: int | None
) -> None:
    stream = pack(ByteTokenizer(), documents, limit).tolist()
    expected = [token for text in documents for token in [*text.encode(), 256]][:-1]
    assert stream == expected[:limit]


def test_without_such_a_token_documents_are_joined_by_nothing() -> None:
    assert pack(WordTokenizer.fit(["a b"]), ["a", "b", "a"]).tolist() == [2, 3, 2]


def test_a_limit_stops_reading_and_many_documents_are_all_read() -> None:
    documents = ["ab"] * 2500
    assert len(pack(ByteTokenizer(), documents)) == 2500 * 3 - 1
    assert pack(ByteTokenizer(), documents, 10).tolist() == [97, 98, 256] * 3 + [97]


@given(tokens=st.integers(0, 200), seq_len=st.integers(1, 20))
def test_a_block_predicts_one_token_further(tokens: int, seq_len: int) -> None:
    made = blocks(tokens, seq_len)
    assert len(made) == max(0, (tokens - 1) // seq_len)
    order = list(range(len(made)))[::-1]
    x, y = made.gather(order)
    assert x.dtype == y.dtype == torch.int64
    assert x.shape == y.shape == (len(made), seq_len)
    for row, block in enumerate(order):
        start = block * seq_len
        assert x[row].tolist() == list(range(start, start + seq_len))
        assert y[row].tolist() == list(range(start + 1, start + seq_len + 1))


def rows(batches: Batches) -> list[list[int]]:
    """The first token of every block, batch by batch, of the rest of an epoch."""
    return [x[:, 0].tolist() for x, _ in batches]


@given(
    tokens=st.integers(30, 300),
    batch_size=st.integers(1, 7),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    stop=st.integers(0, 200),
    seed=st.integers(0, 2**40),
)
def test_an_interrupted_iteration_goes_on_with_exactly_the_rest(
    tokens: int, batch_size: int, shuffle: bool, drop_last: bool, stop: int, seed: int
) -> None:
    def make() -> Batches:
        return Batches(
            blocks(tokens, 4), batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last
        )

    whole = make()
    epochs = [rows(whole), rows(whole)]
    assert all(len(epoch) == len(whole) for epoch in epochs)

    first, seen = make(), []
    state = first.state_dict()
    for _ in range(2):
        for x, _ in first:
            seen.append(x[:, 0].tolist())
            if len(seen) == stop:
                state = first.state_dict()
    resumed = make()
    resumed.load_state_dict(state)
    rest = []
    while resumed.epoch < 2:
        rest += rows(resumed)
    everything = epochs[0] + epochs[1]
    assert seen == everything
    assert rest == (everything[stop:] if 0 < stop <= len(everything) else everything)


def test_an_epoch_visits_every_block_once_in_an_order_of_its_own() -> None:
    def epoch(batches: Batches) -> list[int]:
        return [token for batch in rows(batches) for token in batch]

    batches = Batches(blocks(401, 4), 8, shuffle=True, seed=1)
    first, second = epoch(batches), epoch(batches)
    assert sorted(first) == sorted(second) == list(range(0, 400, 4))
    assert first != second
    assert epoch(Batches(blocks(401, 4), 8, shuffle=True, seed=2)) != first
    assert epoch(Batches(blocks(401, 4), 8)) == sorted(first)


def test_while_the_last_batch_is_in_use_the_epoch_is_not_over() -> None:
    batches = Batches(blocks(9, 4), 1)
    states = [batches.state_dict() for _ in batches]
    assert states == [{"epoch": 0, "position": 1}, {"epoch": 0, "position": 2}]
    assert batches.state_dict() == {"epoch": 1, "position": 0}


@pytest.mark.parametrize(
    ("tokens", "drop_last", "message"),
    [
        (32, True, "32 tokens and one batch of 8 x 4 needs 33.*optim.batch_size or data.seq_len"),
        (4, False, r"4 tokens and one batch of 1 x 4 needs 5: .*smaller data\.seq_len"),
        (0, False, "0 tokens"),
    ],
)
def test_too_little_text_for_one_batch_says_what_to_change(
    tokens: int, drop_last: bool, message: str
) -> None:
    with pytest.raises(DataError, match=f"'train' has {message}"):
        Batches(blocks(tokens, 4), 8, drop_last=drop_last)
    enough = Batches(blocks(tokens + 1 if tokens else 5, 4), 8, drop_last=drop_last)
    assert len(enough) == 1


def test_a_position_of_other_data_is_refused() -> None:
    batches = Batches(blocks(41, 4), 2)
    with pytest.raises(DataError, match="has 5 batches and cannot go on at 6"):
        batches.load_state_dict({"epoch": 0, "position": 6})
