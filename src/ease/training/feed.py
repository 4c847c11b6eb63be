"""Hands a phase its training batches, epoch after epoch, and knows where it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from ease.data import Batch


@runtime_checkable
class Resumable(Protocol):
    """Batches that can go on from a place in an epoch without reading up to it."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Feed:
    """Groups of batches; one group makes one step."""

    def __init__(self, batches: Iterable[Batch], group: int) -> None:
        self.batches = batches
        self.group = group
        self.taken = 0  # batches of the present epoch
        self._epoch: Iterator[Batch] | None = None
        self._place = self._inner_state()

    def next_group(self) -> list[Batch]:
        """The next group, the last of an epoch perhaps smaller; empty where an epoch ends."""
        if self._epoch is None:
            self._epoch = iter(self.batches)
            if not isinstance(self.batches, Resumable):
                next(itertools.islice(self._epoch, self.taken, self.taken), None)
        group = []
        for batch in itertools.islice(self._epoch, self.group):
            group.append(batch)
            self.taken += 1
            # Now, since batches that find themselves at their end are in the next epoch already.
            self._place = self._inner_state()
        if not group:
            self._epoch, self.taken, self._place = None, 0, self._inner_state()
        return group

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self.taken, "place": self._place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.taken, self._place, self._epoch = state["taken"], state["place"], None
        if isinstance(self.batches, Resumable):
            self.batches.load_state_dict(state["place"])

    def _inner_state(self) -> dict[str, Any] | None:
        return self.batches.state_dict() if isinstance(self.batches, Resumable) else None
