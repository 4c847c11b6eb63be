from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ease.data.cuts import Cut, cut_documents, fitting_text, plan_cuts

DOCUMENTS = st.lists(st.text("ab ", min_size=1), min_size=1, max_size=60)


def numbered(count: int) -> list[str]:
    return [f"document {number}" for number in range(count)]


@given(documents=st.integers(20, 500))
def test_many_documents_are_cut_whole_in_order_and_none_is_lost(documents: int) -> None:
    parts = {"all": numbered(documents)}
    cuts, _ = plan_cuts(parts)
    cut = [cut_documents(parts, cuts[split]) for split in ("train", "validation", "test")]
    assert [text for texts in cut for text in texts] == parts["all"]
    assert abs(len(cut[0]) - 0.9 * documents) <= 1
    assert all(cut)


def test_fewer_than_twenty_documents_are_cut_by_tokens() -> None:
    cuts, notes = plan_cuts({"all": numbered(19)})
    assert {cut.unit for cut in cuts.values()} == {"tokens"}
    assert [cut.bounds(1000) for cut in cuts.values()] == [(0, 900), (900, 950), (950, 1000)]
    assert len(notes) == 3


def test_train_validation_and_test_that_are_there_stay_whole() -> None:
    parts = {"train": numbered(3), "validation": numbered(2), "test": numbered(1)}
    cuts, notes = plan_cuts(parts)
    assert {split: cut_documents(parts, cut) for split, cut in cuts.items()} == parts
    assert notes == []


@pytest.mark.parametrize(("count", "unit"), [(1, "tokens"), (2, "documents")])
def test_without_a_test_part_the_second_half_of_validation_serves(count: int, unit: str) -> None:
    cuts, notes = plan_cuts({"train": numbered(5), "validation": numbered(count)})
    assert cuts["train"].bounds(5) == (0, 5)
    assert (cuts["validation"].part, cuts["test"].part) == ("validation", "validation")
    assert (cuts["validation"].unit, cuts["test"].unit) == (unit, unit)
    assert cuts["validation"].bounds(10) == (0, 5)
    assert cuts["test"].bounds(10) == (5, 10)
    assert any(note.startswith("test:") for note in notes)


def test_without_validation_the_end_of_train_serves() -> None:
    with_test, _ = plan_cuts({"train": numbered(100), "test": numbered(2)})
    assert with_test["train"].bounds(100) == (0, 95)
    assert with_test["validation"].bounds(100) == (95, 100)
    assert with_test["test"].part == "test"
    alone, notes = plan_cuts({"train": numbered(100)})
    assert [cut.bounds(100) for cut in alone.values()] == [(0, 90), (90, 95), (95, 100)]
    assert len(notes) == 3


@given(documents=DOCUMENTS)
def test_the_text_to_fit_on_is_the_share_that_the_tokens_will_be(documents: list[str]) -> None:
    parts = {"all": documents}
    text = "".join(documents)
    words = [word for document in documents for word in document.split()]
    for cut in (Cut("all", 0, 18, "tokens"), Cut("all", 18, 19, "tokens")):
        start, stop = cut.bounds(len(text))
        assert "".join(fitting_text(parts, cut, by_words=False)) == text[start:stop]
        start, stop = cut.bounds(len(words))
        assert " ".join(fitting_text(parts, cut, by_words=True)).split() == words[start:stop]
