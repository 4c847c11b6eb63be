"""Who may read what: the one place that cuts the data and opens it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ease.data.packing import Blocks, ProtocolName, token_hash
from ease.data.tokenizers import Ids
from ease.errors import DataError, LeakError

SplitName = Literal["train", "validation", "selection", "calibration", "gate", "test"]
Reader = Literal["training", "mining", "selection", "calibration", "acceptance", "report"]

READERS: dict[ProtocolName, dict[str, tuple[Reader, ...]]] = {
    "honest": {
        "train": ("training", "mining", "report"),
        "selection": ("selection", "report"),
        "calibration": ("calibration", "report"),
        "gate": ("acceptance",),
        "test": ("report",),
    },
    # What the reference programs read: mining on validation is their leak.
    "reference": {
        "train": ("training", "mining", "selection", "calibration", "report"),
        "validation": ("training", "mining", "selection", "calibration", "report"),
        "test": ("report",),
    },
}


class Splits:
    """The tokens of a corpus, which are read through `open` and in no other way."""

    def __init__(self, parts: Mapping[str, Ids], seq_len: int, protocol: ProtocolName) -> None:
        self.protocol = protocol
        self.seq_len = seq_len
        self._tokens: dict[SplitName, Ids] = {}
        self._origins: dict[SplitName, str] = {}
        for split, (part, start, stop) in _ranges(parts, protocol).items():
            self._tokens[split] = parts[part][start:stop]
            self._origins[split] = f"{part}[{start:,}:{stop:,}]"

    @property
    def names(self) -> tuple[SplitName, ...]:
        return tuple(self._tokens)

    def lengths(self) -> dict[SplitName, int]:
        """Tokens a split."""
        return {name: len(tokens) for name, tokens in self._tokens.items()}

    def hashes(self) -> dict[SplitName, str]:
        """A hash of each split's tokens: two runs with the same one saw the same data."""
        return {name: token_hash(tokens) for name, tokens in self._tokens.items()}

    def open(self, name: SplitName, reader: Reader) -> Blocks:
        """The blocks of a split, for a reader who may read it."""
        if name not in self._tokens:
            raise DataError(
                f"there is no split {name!r} under protocol {self.protocol!r}; there are "
                f"{', '.join(self.names)}"
            )
        _check(self.protocol, name, reader)
        return Blocks(self._tokens[name], self.seq_len, name, self.protocol)

    def lines(self) -> list[str]:
        """One line a split: its tokens, where they come from and who reads them."""
        return [
            f"{name:<12}{len(tokens):>12,} tokens  {self._origins[name]}, read by "
            f"{', '.join(READERS[self.protocol][name])}"
            for name, tokens in self._tokens.items()
        ]


def require_reader(batches: object, reader: Reader) -> None:
    """Raise where these blocks or batches come from a split that `reader` may not read.

    Batches of a user's own carry no split, and pass.
    """
    blocks = getattr(batches, "blocks", batches)
    protocol: Any = getattr(blocks, "protocol", None)
    split = getattr(blocks, "split", None)
    if isinstance(split, str) and protocol in READERS:
        _check(protocol, split, reader)


def _check(protocol: ProtocolName, split: str, reader: Reader) -> None:
    readers = READERS[protocol].get(split, ())
    if reader not in readers:
        raise LeakError(
            f"{reader!r} may not read {split!r}: under protocol {protocol!r} it is read by "
            f"{', '.join(readers) or 'nobody'}"
        )


def _ranges(
    parts: Mapping[str, Ids], protocol: ProtocolName
) -> dict[SplitName, tuple[str, int, int]]:
    whole = {part: (part, 0, len(tokens)) for part, tokens in parts.items()}
    ranges: dict[SplitName, tuple[str, int, int]] = {}
    if "train" in whole:
        ranges["train"] = whole["train"]
    if "validation" in whole and protocol == "reference":
        ranges["validation"] = whole["validation"]
    elif "validation" in whole:
        count = len(parts["validation"])
        quarter = count // 4
        gate, calibration = count - quarter, count - 2 * quarter
        ranges["selection"] = ("validation", 0, calibration)
        ranges["calibration"] = ("validation", calibration, gate)
        ranges["gate"] = ("validation", gate, count)
    if "test" in whole:
        ranges["test"] = whole["test"]
    return ranges
