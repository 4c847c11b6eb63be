from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from ease import load_model, load_tokenizer
from ease.recipes import RunFolder

from .commands import Ease, settings, text


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.txt"
    path.write_text(text(90)[::-1], encoding="utf-8")
    return path


@pytest.mark.parametrize("split", ["selection", "test"])
def test_a_run_is_evaluated_on_its_own_split_as_its_result_says(
    ease: Ease, trained: Path, split: str
) -> None:
    chosen = [] if split == "test" else ["--split", split]
    answer = ease("evaluate", trained, "--out", "figures.json", *chosen)
    assert answer.code == 0
    figures = json.loads(Path("figures.json").read_text())
    result = RunFolder(trained).result()
    assert figures["splits"] == {split: result["splits"][split]}
    assert figures["held_out"] is (split == "test")
    assert ("not held out" in answer.out) is (split != "test")
    for facts in ("hashes", "tokens"):
        assert figures["data"][facts] == {split: result["data"][facts][split]}
    assert figures["model"] == result["model"]
    assert (figures["recipe"], figures["seed"], figures["seq_len"]) == ("quickstart", 42, 8)
    ppl = result["splits"][split]["exits"]["1"]["ppl"]
    assert answer.out.splitlines()[1].split()[:4] == [split, "1", "of", "2"]
    assert f"{ppl:,.2f}" in answer.out.splitlines()[1]


@pytest.mark.parametrize("folder", ["run", "run/model"])
@pytest.mark.parametrize("seq_len", [8, 7, 50])
def test_every_whole_block_of_a_text_counts_once_and_gives_its_true_loss(
    ease: Ease, trained: Path, other: Path, folder: str, seq_len: int
) -> None:
    model_or_run = trained.parent / folder
    answer = ease(
        "evaluate", model_or_run, "--data", other, "--seq-len", seq_len, "--out", "figures.json"
    )
    assert answer.code == 0
    result = json.loads(Path("figures.json").read_text())
    assert result["splits"].keys() == {"data"}
    assert ("held_out" in result, "note" in result) == (False, False)
    figures = result["splits"]["data"]

    model, tokenizer = load_model(trained / "model"), load_tokenizer(trained / "model")
    (ids,) = tokenizer.encode([other.read_text(encoding="utf-8")])
    tokens = torch.from_numpy(ids).long()
    count = (len(tokens) - 1) // seq_len * seq_len
    losses: dict[str, list[torch.Tensor]] = {"1": [], "2": []}
    for start in range(0, count, seq_len):
        with torch.no_grad():
            outputs = model.eval()(tokens[None, start : start + seq_len])
        for output in outputs:
            target = tokens[start + 1 : start + seq_len + 1]
            loss = F.cross_entropy(output.logits()[0].double(), target, reduction="none")
            losses[str(output.layer)].append(loss)
    for layer, found in losses.items():
        ppl = torch.cat(found).mean().exp().item()
        assert figures["exits"][layer]["tokens"] == count
        assert math.isclose(figures["exits"][layer]["ppl"], ppl, rel_tol=1e-5)
    assert figures["ppl"] == figures["exits"]["2"]["ppl"]
    assert result["data"]["tokens"] == {"data": len(tokens)}


def test_a_field_of_rows_is_read_where_it_is_named(ease: Ease, trained: Path, other: Path) -> None:
    rows = [{"body": other.read_text(encoding="utf-8"), "text": "x"}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, field in ((other, []), ("rows.jsonl", ["--field", "body"])):
        answer = ease("evaluate", trained, "--data", name, "--out", f"{name}.json", *field)
        assert answer.code == 0
    splits = [
        json.loads(Path(f"{name}.json").read_text())["splits"] for name in (other, "rows.jsonl")
    ]
    assert splits[0] == splits[1]
    answer = ease("evaluate", trained, "--data", "rows.jsonl", "--field", "boby")
    assert answer.code == 2
    assert "no field 'boby'" in answer.complaint


def test_a_run_reads_other_text_in_blocks_of_its_own_length(
    ease: Ease, trained: Path, other: Path
) -> None:
    answer = ease("evaluate", trained, "--data", other, "--out", "figures.json")
    assert answer.code == 0
    assert json.loads(Path("figures.json").read_text())["seq_len"] == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--split", "gate"], "'report' may not read 'gate'"),
        (["run", "--split", "tset"], "--split tset: choose one of train, "),
        (["run", "--split", "validation"], "no split 'validation' under protocol 'honest'"),
        (["run/model"], "is a model folder and has no data: give --data FILE"),
        (["run/checkpoints"], "is not a model folder: it has no config.json"),
        (["gone"], "gone is not a folder: give a run or a model folder"),
        (["text.txt"], "text.txt is not a folder: give a run or a model folder"),
        (["run", "--data", "gone.txt"], "gone.txt: there is no such file"),
        (["run", "--data", "run"], "run: unknown kind of file"),
        (["run", "--data", "text.txt", "--seq-len", "99999"], "one block of 99999 needs 100,000"),
        (["run", "--device", "tpu"], "device=tpu: choose auto, cpu or cuda"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(
    ease: Ease,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(trained.parent)
    answer = ease("evaluate", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.complaint
    assert answer.err.count("\n") == 1


def test_a_text_that_changed_since_the_training_is_refused(ease: Ease, source: Path) -> None:
    assert ease("train", "quickstart", *settings(source), "--out", "run").code == 0
    changed = source.read_text(encoding="utf-8").replace("cat", "dog", 1)
    source.write_text(changed, encoding="utf-8")
    answer = ease("evaluate", "run")
    assert (answer.code, answer.out) == (2, "")
    assert "text.txt has changed since run was trained" in answer.complaint
    assert ease("evaluate", "run", "--data", source).code == 0


def test_a_run_that_has_not_ended_is_sent_back_to_its_end(ease: Ease, source: Path) -> None:
    broken = ease("train", "quickstart", *settings(source, optim__lr=1e30), "--out", "run")
    assert broken.code == 1
    answer = ease("evaluate", "run")
    assert (answer.code, answer.out) == (2, "")
    assert "run has no model yet: finish the run with --resume" in answer.complaint


def test_figures_that_cannot_be_written_are_still_shown(ease: Ease, trained: Path) -> None:
    Path("file").touch()
    answer = ease("evaluate", trained, "--out", "file/figures.json")
    assert answer.code == 1
    assert "could not write file/figures.json" in answer.complaint
    assert "2 of 2" in answer.out


def test_figures_of_the_reference_protocol_say_what_they_are(ease: Ease, source: Path) -> None:
    tiny = settings(source, protocol="reference", data__tokenizer="word")
    assert ease("train", "standard", *tiny, "--out", "run").code == 0
    answer = ease("evaluate", "run", "--split", "validation", "--out", "figures.json")
    assert "reference protocol: not held out" in answer.out
    figures = json.loads(Path("figures.json").read_text())
    assert figures["held_out"] is False
    assert figures["note"] == "reference protocol: not held out"
