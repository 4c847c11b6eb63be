"""What the README shows is run: its Python as it stands, its commands up to the work itself."""

from __future__ import annotations

import functools
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from ease import load_recipe
from ease.cli.app import app
from ease.data import sources
from ease.data.library import read_library

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPECIFICATION = (ROOT / "docs" / "specification.md").read_text(encoding="utf-8")
FRAMEWORK = "train_batches"


def blocks(page: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of these languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [code for language, code in found if language in languages]


PYTHON = blocks(README, "python")
SNIPPETS = [code for page in (README, SPECIFICATION) for code in blocks(page, "python")
            if FRAMEWORK in code]  # fmt: skip
COMMANDS = [
    line.removeprefix("$ ").partition("  #")[0]
    for block in blocks(README, "console", "sh", "bash", "shell")
    for line in block.replace("\\\n", " ").splitlines()
    if re.match(r"(\$ )?(\S*/)?ease ", line)
]


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    rows = [torch.randint(1000, (2, 9)) for _ in range(count)]
    return [(row[:, :-1], row[:, 1:]) for row in rows]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder for what the examples write, and an eighth of the embedded corpus."""
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    smaller = functools.partial(read_library, largest=1_000_000)
    monkeypatch.setattr(sources, "read_library", smaller)


@pytest.mark.skipif(not PYTHON, reason="README.md shows no Python")
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_python_of_the_readme_runs_as_it_stands(number: int) -> None:
    names: dict[str, Any] = {}
    if FRAMEWORK in PYTHON[number]:
        names = {"train_batches": batches(3), "val_batches": batches(2)}
    exec(compile(PYTHON[number], f"README.md, Python block {number + 1}", "exec"), names)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_framework_snippet_gives_the_keys_that_it_promises(number: int) -> None:
    names: dict[str, Any] = {"train_batches": batches(3), "val_batches": batches(2)}
    exec(SNIPPETS[number], names)
    assert isinstance(names["loss"], float)
    assert names["stats"].keys() == {"ppl", "acc", "shallow_ratio", "compute_cost"}
    if "train_with_early_stopping" in SNIPPETS[number]:
        assert names["result"].keys() == {
            "train_losses", "val_losses", "val_accs", "best_epoch", "total_epochs", "stopped_early"
        }  # fmt: skip


def test_some_page_shows_the_whole_framework() -> None:
    assert any("train_with_early_stopping" in snippet for snippet in SNIPPETS)


@pytest.mark.skipif(not COMMANDS, reason="README.md shows no ease command")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_readme_is_one_that_ease_has(line: str) -> None:
    _, verb, *arguments = shlex.split(line, comments=True)
    group: Any = typer.main.get_command(app)
    assert verb in group.commands, f"there is no verb {verb}"
    parsed = group.commands[verb].make_context(verb, arguments).params
    if verb == "train":
        load_recipe(parsed["recipe"], parsed["settings"] or [])


def test_the_targets_that_the_readme_names_are_in_the_makefile() -> None:
    targets = re.findall(r"^(?:\$ )?make (\w+)", README, re.MULTILINE)
    made = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"demo", "test"} <= set(targets) <= set(made)


def test_what_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README)
    gone = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not gone, os.linesep.join(gone)


def test_the_recipes_of_the_readme_are_those_that_are_shipped() -> None:
    from ease import recipe_names

    rows = re.findall(r"^\| `([\w-]+)` \|", README, re.MULTILINE)
    assert not rows or sorted(rows) == recipe_names()
