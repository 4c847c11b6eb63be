from __future__ import annotations

import pytest
from pydantic import ValidationError

from ease.data import DataConfig


def test_fields_may_be_the_list_that_yaml_has() -> None:
    assert DataConfig.model_validate({"fields": ["a", "b"]}).fields == ("a", "b")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tokenizer": "words"}, "choose word, byte, bpe or hf:"),
        ({"tokenizer": "hf:"}, "choose word, byte, bpe or hf:"),
        ({"source": "hf:"}, "names no dataset"),
        ({"source": "hf:a/b", "streaming": True}, "streaming needs max_documents"),
        ({"subset": "raw"}, "subset is for a Hugging Face dataset"),
        ({"max_documents": 5}, "max_documents is for a Hugging Face dataset"),
        ({"vocab_size": 257}, "vocab_size"),
        ({"seq_len": 0}, "seq_len"),
        ({"samples": 0}, "samples"),
        ({"seq_len": 1.5}, "seq_len"),
        ({"fields": []}, "fields"),
        ({"fields": [1]}, "fields"),
        ({"sorce": "stdlib"}, "sorce"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DataConfig.model_validate(values)
