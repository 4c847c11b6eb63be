"""How the parts that a source has become train, validation and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ease.data.sources import ALL

# Shares are counted in twentieths: 90 / 5 / 5 per cent is 18 / 1 / 1.
WHOLE = 20
FEWEST_DOCUMENTS = 20

Parts = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Cut:
    """A contiguous share of one part of the source, by whole documents or by tokens."""

    part: str
    start: int
    stop: int
    unit: Literal["documents", "tokens"]

    def bounds(self, count: int) -> tuple[int, int]:
        """The first of `count` things that is inside and the first that is outside again."""
        return count * self.start // WHOLE, count * self.stop // WHOLE


def plan_cuts(parts: Parts) -> tuple[dict[str, Cut], list[str]]:
    """A cut for each of train, validation and test, and notes on those that are not whole."""
    cuts = {
        split: Cut(part, start, stop, _unit(len(parts[part]), start, stop))
        for split, (part, start, stop) in _shares(parts).items()
    }
    notes = [
        f"{split}: the {cut.unit} of {cut.part} from {cut.start * 5} % to {cut.stop * 5} %"
        for split, cut in cuts.items()
        if cut.stop - cut.start < WHOLE
    ]
    return cuts, notes


def cut_documents(parts: Parts, cut: Cut) -> Sequence[str]:
    """The documents of a cut by documents; all documents of the part of a cut by tokens."""
    documents = parts[cut.part]
    if cut.unit == "tokens":
        return documents
    start, stop = cut.bounds(len(documents))
    return documents[start:stop]


def fitting_text(parts: Parts, cut: Cut, by_words: bool) -> Sequence[str]:
    """The text of a cut before there are tokens: what a tokenizer may be fitted on.

    The share of a cut by tokens is taken in words, where these will be the tokens, or else in
    characters.
    """
    documents = cut_documents(parts, cut)
    if cut.unit == "documents":
        return documents
    if by_words:
        words = [word for document in documents for word in document.split()]
        start, stop = cut.bounds(len(words))
        return [" ".join(words[start:stop])]
    start, stop = cut.bounds(sum(map(len, documents)))
    inside = []
    for document in documents:
        inside.append(document[max(start, 0) : max(stop, 0)])
        start, stop = start - len(document), stop - len(document)
    return [text for text in inside if text]


def _shares(parts: Parts) -> dict[str, tuple[str, int, int]]:
    whole = {part: (part, 0, WHOLE) for part in parts}
    if "validation" in parts and "test" in parts:
        return {split: whole[split] for split in ("train", "validation", "test")}
    if "validation" in parts:
        half = WHOLE // 2
        return {
            "train": whole["train"],
            "validation": ("validation", 0, half),
            "test": ("validation", half, WHOLE),
        }
    if "test" in parts:
        return {
            "train": ("train", 0, 19),
            "validation": ("train", 19, WHOLE),
            "test": whole["test"],
        }
    part = ALL if ALL in parts else "train"
    return {"train": (part, 0, 18), "validation": (part, 18, 19), "test": (part, 19, WHOLE)}


def _unit(documents: int, start: int, stop: int) -> Literal["documents", "tokens"]:
    if stop - start == WHOLE:
        return "documents"
    fewest = 2 if stop - start == WHOLE // 2 else FEWEST_DOCUMENTS
    return "documents" if documents >= fewest else "tokens"
