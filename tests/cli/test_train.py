"""A run from the command line: what it prints where, and which folder it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ease.recipes import RunFolder

from .commands import Ease, settings, start, text

MADE = {"config.yaml", "metrics.jsonl", "checkpoints", "model", "result.json"}


def test_results_go_to_stdout_and_progress_to_stderr_as_plain_lines(
    source: Path, tmp_path: Path
) -> None:
    process = start("train", "quickstart", *settings(source), cwd=tmp_path)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    result = RunFolder(tmp_path / "runs" / "quickstart").result()
    table, (sentence, where) = out.splitlines()[:5], out.splitlines()[-2:]
    assert [line.split()[:4] for line in table[1:]] == [
        [split, str(layer), "of", "2"] for split in ("selection", "test") for layer in (1, 2)
    ]
    test = result["splits"]["test"]
    assert sentence.startswith(f"Held-out test perplexity {test['ppl']:,.2f} after all 2 layers")
    assert f"{test['exits']['1']['ppl']:,.2f} if every token left after layer 1 (50%)" in sentence
    assert where == "Everything is in runs/quickstart"
    assert not {"\x1b", "\r"} & set(out + err)
    lines = err.splitlines()
    assert lines[0] == f"reading {source}"
    assert any(line.startswith("epoch 1  step 2") for line in lines)


def test_the_first_lines_of_a_run_say_what_was_cut_how(ease: Ease, source: Path) -> None:
    answer = ease("train", "quickstart", *settings(source, data__samples=30))
    before, _, _ = answer.err.partition("phase ")
    tokens = RunFolder(Path("runs/quickstart")).result()["data"]["tokens"]
    assert (tokens["train"], tokens["selection"], tokens["gate"]) == (990, 100, 49)
    for words in (
        f"one file: {source}",
        "validation: the tokens of all from 90 % to 95 %",
        "data.samples=30 takes the first tokens: 990 of train, 198 of validation",
        "byte, 257 types",
        "honest, blocks of 8 tokens",
        f"{tokens['selection']} tokens  validation[0:100], read by selection, report",
        f"{tokens['gate']} tokens  validation[149:198], read by acceptance\n",
        "exits after 1, 2, on cpu",
    ):
        assert words in before


def test_runs_without_a_folder_are_numbered(ease: Ease, source: Path) -> None:
    for folder in ("runs/quickstart", "runs/quickstart-2", "runs/quickstart-3"):
        answer = ease("train", "quickstart", *settings(source))
        assert answer.out.endswith(f"Everything is in {folder}\n")
        assert {path.name for path in Path(folder).iterdir()} == MADE


def test_resume_goes_back_to_the_newest_run_and_the_numbers_go_on(ease: Ease, source: Path) -> None:
    for number in ("-2", "-10"):
        ease("train", "quickstart", *settings(source), "--out", f"runs/quickstart{number}")
    answer = ease("train", "quickstart", *settings(source), "--resume")
    assert answer.out.endswith("Everything is in runs/quickstart-10\n")
    answer = ease("train", "quickstart", *settings(source))
    assert answer.out.endswith("Everything is in runs/quickstart-11\n")


def test_a_folder_with_a_run_is_not_written_over(ease: Ease, source: Path) -> None:
    first = ease("train", "quickstart", *settings(source), "--out", "run")
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    answer = ease("train", "quickstart", *settings(source), "--out", "run")
    assert (first.code, answer.code, answer.out) == (0, 2, "")
    assert "run holds a run: add --resume to go on, or choose another --out" in answer.complaint
    assert before == {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_folder_with_something_else_is_not_touched(
    ease: Ease, source: Path, resume: list[str]
) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("notes")
    Path("file").write_text("notes")
    answer = ease("train", "quickstart", *settings(source), "--out", "mine", *resume)
    assert (answer.code, answer.out) == (2, "")
    assert "--out mine is not empty and holds no run" in answer.complaint
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]
    answer = ease("train", "quickstart", *settings(source), "--out", "file", *resume)
    assert answer.code == 2
    assert "--out file is a file: give a folder" in answer.complaint


def test_an_empty_folder_is_taken(ease: Ease, source: Path) -> None:
    Path("run").mkdir()
    assert ease("train", "quickstart", *settings(source), "--out", "run").code == 0
    assert {path.name for path in Path("run").iterdir()} == MADE


def test_resume_where_there_is_no_run_starts_one(ease: Ease, source: Path) -> None:
    answer = ease("train", "quickstart", *settings(source), "--resume")
    assert answer.code == 0
    assert answer.out.endswith("Everything is in runs/quickstart\n")
    answer = ease("train", "quickstart", *settings(source), "--resume", "--out", "run")
    assert answer.code == 0
    assert Path("run/result.json").is_file()


def test_resume_of_a_finished_run_prints_its_result_again_without_training(
    ease: Ease, source: Path
) -> None:
    first = ease("train", "quickstart", *settings(source), "--out", "run")
    source.unlink()
    again = ease("train", "quickstart", *settings(source), "--out", "run", "--resume")
    assert (again.code, again.out, again.err) == (0, first.out, "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optim__lr": 0.5}, "run was started with optim.lr=0.003, not 0.5"),
        ({"seed": 7}, "run was started with seed=42, not 7"),
        ({"stop__max_steps": 4}, "run was started with stop.max_steps=2, not 4"),
        ({"strategy__weights": "depth"}, "run was started with strategy.weights=equal, not depth"),
    ],
)
def test_resume_with_other_settings_is_refused_by_name(
    ease: Ease, source: Path, changes: dict[str, object], message: str
) -> None:
    ease("train", "quickstart", *settings(source), "--out", "run")
    answer = ease("train", "quickstart", *settings(source, **changes), "--out", "run", "--resume")
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.complaint


def test_resume_on_text_that_changed_is_refused(ease: Ease, source: Path) -> None:
    ease("train", "quickstart", *settings(source), "--out", "run")
    Path("run/result.json").unlink()
    source.write_text(text(1500), encoding="utf-8")
    answer = ease("train", "quickstart", *settings(source), "--out", "run", "--resume")
    assert (answer.code, answer.out) == (2, "")
    assert "the text of text.txt is not what run was started on" in answer.complaint


def test_a_reference_run_says_that_it_is_not_held_out(ease: Ease, source: Path) -> None:
    tiny = settings(source, protocol="reference", data__tokenizer="word")
    answer = ease("train", "standard", *tiny, "--out", "run")
    assert "Test (reference protocol: not held out) perplexity" in answer.out
    assert "Held-out" not in answer.out
    assert json.loads(Path("run/result.json").read_text())["held_out"] is False
