from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ease import Batches
from ease.training.feed import Feed
from model.tiny import random_batches
from training.phases import blocks

EPOCHS = 3


def sources(kind: str) -> Any:
    """Five batches an epoch, the same each time it is called."""
    if kind == "list":
        return random_batches(5)
    return Batches(blocks(count=15), 3, shuffle=True, seed=7)


def all_groups(feed: Feed, epochs: int) -> list[list[Tensor]]:
    """The inputs of every group, an empty one where an epoch ends."""
    groups: list[list[Tensor]] = []
    while epochs:
        group = [x for x, _ in feed.next_group()]
        groups.append(group)
        epochs -= not group
    return groups


def equal(one: list[list[Tensor]], two: list[list[Tensor]]) -> bool:
    return [[x.tolist() for x in group] for group in one] == [
        [x.tolist() for x in group] for group in two
    ]


@given(kind=st.sampled_from(["list", "batches"]), group=st.integers(1, 7), stop=st.integers(0, 14))
def test_a_feed_goes_on_from_any_group_as_if_it_had_never_stopped(
    kind: str, group: int, stop: int
) -> None:
    whole = all_groups(Feed(sources(kind), group), EPOCHS)
    stop = min(stop, len(whole) - 1)
    first = Feed(sources(kind), group)
    before = [[x for x, _ in first.next_group()] for _ in range(stop)]
    second = Feed(sources(kind), group)
    second.load_state_dict(first.state_dict())
    ended = sum(not group for group in before)
    assert equal(before + all_groups(second, EPOCHS - ended), whole)


@pytest.mark.parametrize("kind", ["list", "batches"])
@pytest.mark.parametrize(("group", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_every_batch_of_an_epoch_is_handed_out_once(
    kind: str, group: int, sizes: list[int]
) -> None:
    groups = all_groups(Feed(sources(kind), group), 2)
    assert [len(group) for group in groups] == [*sizes, 0, *sizes, 0]
