from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ease.data import Batches, Blocks, Reader, SplitName, Splits, require_reader
from ease.data.packing import ProtocolName
from ease.data.splits import READERS
from ease.errors import DataError, LeakError

HONEST = {
    "train": {"training", "mining", "report"},
    "selection": {"selection", "report"},
    "calibration": {"calibration", "report"},
    "gate": {"acceptance"},
    "test": {"report"},
}
REFERENCE = {
    "train": {"training", "mining", "selection", "calibration", "report"},
    "validation": {"training", "mining", "selection", "calibration", "report"},
    "test": {"report"},
}
CASES = [
    (protocol, split, reader, reader in readers)
    for protocol, table in (("honest", HONEST), ("reference", REFERENCE))
    for split, readers in table.items()
    for reader in get_args(Reader)
]


def splits(protocol: ProtocolName, validation: int = 40) -> Splits:
    counts = {"train": 100, "validation": validation, "test": 50}
    parts = {part: np.arange(count, dtype=np.int32) for part, count in counts.items()}
    return Splits(parts, 4, protocol)


@pytest.mark.parametrize(("protocol", "split", "reader", "allowed"), CASES)
def test_a_split_opens_for_its_readers_and_nobody_else(
    protocol: ProtocolName, split: SplitName, reader: Reader, allowed: bool
) -> None:
    opened = splits(protocol)
    somebody = READERS[protocol][split][0]
    if allowed:
        assert opened.open(split, reader).split == split
        require_reader(opened.open(split, somebody), reader)
        return
    with pytest.raises(LeakError, match=f"{reader!r} may not read {split!r}"):
        opened.open(split, reader)
    blocks = opened.open(split, somebody)
    with pytest.raises(LeakError, match=f"{reader!r} may not read {split!r}"):
        require_reader(blocks, reader)
    with pytest.raises(LeakError):
        require_reader(Batches(blocks, 2), reader)


@given(count=st.integers(0, 1000))
def test_validation_is_cut_into_contiguous_ranges_without_loss(count: int) -> None:
    cut = splits("honest", count)
    tokens = [
        cut.open("selection", "report").tokens,
        cut.open("calibration", "report").tokens,
        cut.open("gate", "acceptance").tokens,
    ]
    assert np.concatenate(tokens).tolist() == list(range(count))
    assert len(tokens[1]) == len(tokens[2]) == count // 4


def test_the_ranges_of_ten_thousand_samples() -> None:
    lengths = splits("honest", 66_000).lengths()
    assert [lengths[name] for name in ("selection", "calibration", "gate")] == [
        33_000,
        16_500,
        16_500,
    ]
    assert any("validation[33,000:49,500]" in line for line in splits("honest", 66_000).lines())


@pytest.mark.parametrize(("protocol", "name"), [("honest", "validation"), ("reference", "gate")])
def test_a_split_of_the_other_protocol_is_not_there(
    protocol: ProtocolName, name: SplitName
) -> None:
    with pytest.raises(DataError, match=f"no split {name!r}.*there are train"):
        splits(protocol).open(name, "report")


def test_what_carries_no_split_may_be_read_by_anybody() -> None:
    tokens = np.arange(20, dtype=np.int32)
    x = torch.zeros(2, 3, dtype=torch.int64)
    for batches in ([(x, x)], x, iter([(x, x)]), "text", Blocks(tokens, 4, "data")):
        for reader in get_args(Reader):
            require_reader(batches, reader)


def test_hashes_tell_the_tokens_of_a_split_apart() -> None:
    same, other = splits("honest").hashes(), splits("honest", 44).hashes()
    assert same == splits("honest").hashes()
    assert same["train"] == other["train"]
    assert same["gate"] != other["gate"]
