"""Documents -> one stream of tokens -> blocks -> batches that can be resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from ease.data.tokenizers import Ids, Tokenizer
from ease.errors import DataError

ProtocolName = Literal["honest", "reference"]

Batch = tuple[torch.Tensor, torch.Tensor]

_DOCUMENTS_AT_ONCE = 1000


def require_tokens(batch: Batch, vocab_size: int) -> None:
    """Raise unless a batch is inputs and targets of one shape whose ids a model knows."""
    x, y = batch
    if x.ndim != 2 or x.shape != y.shape or not x.numel():
        raise DataError(
            f"a batch is (x, y), each (batch, seq): not {tuple(x.shape)} and {tuple(y.shape)}"
        )
    for ids in (x, y):
        # To look at ids on a GPU would make every step wait; there the device refuses them.
        if ids.device.type == "cpu":
            low, high = (int(end) for end in ids.aminmax())
            if low < 0 or high >= vocab_size:
                raise DataError(
                    f"token ids must be from 0 to {vocab_size - 1}: found {low} to {high}"
                )


def pack(tokenizer: Tokenizer, documents: Sequence[str], limit: int | None = None) -> Ids:
    """The documents' tokens, end-of-text between them; no more text is read than `limit` needs."""
    end = tokenizer.end_of_text
    between = np.array([] if end is None else [end], np.int32)
    stream: list[Ids] = []
    length = 0
    for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
        for ids in tokenizer.encode(documents[start : start + _DOCUMENTS_AT_ONCE]):
            stream += [between, ids] if stream else [ids]
            length += len(ids) + len(between)
        if limit is not None and length - len(between) >= limit:
            break
    return np.concatenate([np.array([], np.int32), *stream])[:limit]


def token_hash(tokens: Ids) -> str:
    """sha256 of the tokens as little-endian 32-bit integers."""
    return hashlib.sha256(tokens.astype("<i4").tobytes()).hexdigest()


class Blocks:
    """Block i reads tokens [i L, i L + L) and predicts one further.

    Blocks know the split and the protocol that they were opened under; `require_reader` checks
    them wherever they are handed on to.
    """

    def __init__(
        self, tokens: Ids, seq_len: int, split: str, protocol: ProtocolName | None = None
    ) -> None:
        self.tokens = tokens
        self.seq_len = seq_len
        self.split = split
        self.protocol = protocol
        self._count = max(0, len(tokens) - 1) // seq_len
        used = self._count * seq_len
        self._inputs = tokens[:used].reshape(self._count, seq_len)
        self._targets = tokens[1 : used + 1].reshape(self._count, seq_len)

    def __len__(self) -> int:
        return self._count

    def gather(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
        """Inputs and targets of these blocks, each (n, seq_len), int64."""
        rows = np.asarray(indices, np.int64)
        inputs = torch.from_numpy(self._inputs[rows].astype(np.int64))
        return inputs, torch.from_numpy(self._targets[rows].astype(np.int64))


class Batches:
    """One whole epoch of batches an iteration; a loaded state is gone on from once.

    The order of epoch e depends on the seed and e alone. The position is that of the next
    batch: while the last one is in use the epoch is still the same, and it ends with the loop.
    """

    def __init__(
        self,
        blocks: Blocks,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.blocks = blocks
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self.position = 0
        self._resuming = False
        if len(self) == 0:
            raise DataError(self._too_short())

    def __len__(self) -> int:
        whole, rest = divmod(len(self.blocks), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        if not self._resuming:
            self.position = 0
        self._resuming = False
        order = self._order()
        while self.position < len(self):
            start = self.position * self.batch_size
            self.position += 1
            yield self.blocks.gather(order[start : start + self.batch_size])
        self.epoch += 1
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        if not 0 <= state["position"] <= len(self):
            raise DataError(
                f"{self.blocks.split!r} has {len(self)} batches and cannot go on at "
                f"{state['position']}: the saved position belongs to other data or batches"
            )
        self.epoch, self.position = state["epoch"], state["position"]
        self._resuming = True

    def _order(self) -> npt.NDArray[np.int64]:
        count = len(self.blocks)
        if not self.shuffle:
            return np.arange(count)
        return np.random.default_rng([self.seed, self.epoch]).permutation(count)

    def _too_short(self) -> str:
        rows = self.batch_size if self.drop_last else 1
        seq_len = self.blocks.seq_len
        return (
            f"{self.blocks.split!r} has {len(self.blocks.tokens):,} tokens and one batch of "
            f"{rows} x {seq_len} needs {rows * seq_len + 1:,}: give more text, or a smaller "
            f"{'optim.batch_size or ' if rows > 1 else ''}data.seq_len"
        )
