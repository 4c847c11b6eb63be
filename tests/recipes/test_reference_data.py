from __future__ import annotations

from pathlib import Path

from ease import load_corpus, load_recipe
from ease.recipes.run import open_batches


def test_the_reference_protocol_reads_161_and_32_batches_in_order(wikitext: Path) -> None:
    config = load_recipe("standard", ["protocol=reference", f"data.source={wikitext}"])
    corpus = load_corpus(config.data, config.protocol)
    assert corpus.tokenizer.vocab_size == 28_912
    train = open_batches(corpus, config, "train", "training")
    validation = open_batches(corpus, config, "validation", "selection")
    test = open_batches(corpus, config, "test", "report")
    assert (len(train), len(validation), len(test)) == (161, 32, 32)
    first, second = (next(iter(open_batches(corpus, config, "train", "training"))) for _ in "ab")
    x, y = first
    assert x.shape == y.shape == (64, 32)
    assert x.equal(second[0])
    words = (wikitext / "train.txt").read_text(encoding="utf-8").lower().split()
    assert corpus.tokenizer.decode(x.flatten().tolist()) == " ".join(words[: 64 * 32])
    assert corpus.tokenizer.decode(y[0].tolist()) == " ".join(words[1:33])


def test_the_honest_protocol_shuffles_train_and_reads_held_out_text_to_its_end(
    wikitext: Path,
) -> None:
    chosen = ["data.tokenizer=word", "data.seq_len=32", "data.samples=10000"]
    config = load_recipe("standard", [*chosen, f"data.source={wikitext}", "optim.batch_size=64"])
    corpus = load_corpus(config.data, config.protocol)
    train = open_batches(corpus, config, "train", "training")
    selection = open_batches(corpus, config, "selection", "selection")
    assert len(train) == 161
    assert sum(x.numel() for x, _ in selection) == 32_999 // 32 * 32
    x, _ = next(iter(train))
    assert not x.equal(train.blocks.gather(range(64))[0])
