from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest
import typer

from ease import load_recipe, recipe_names
from ease.cli.app import VERBS, app

from .commands import Ease

GROUP: Any = typer.main.get_command(app)


def test_recipes_lists_every_recipe_with_what_it_trains(ease: Ease) -> None:
    answer = ease("recipes")
    assert (answer.code, answer.err) == (0, "")
    _, *rows = answer.out.splitlines()
    assert [row.split()[0] for row in rows] == recipe_names()
    for row in rows:
        name, description = row.split(maxsplit=1)
        assert description == load_recipe(name).description != ""


def test_version_is_that_of_the_distribution(ease: Ease) -> None:
    answer = ease("--version")
    assert (answer.code, answer.out) == (0, f"ease {metadata.version('ease-lm')}\n")


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_and_argument_says_what_it_is(ease: Ease, verb: str) -> None:
    command = GROUP.commands[verb]
    assert command.help
    for parameter in command.params:
        assert parameter.help, f"{verb} {parameter.name}"
    answer = ease(verb, "--help")
    assert (answer.code, answer.err) == (0, "")
    for parameter in command.params:
        for name in parameter.opts if parameter.param_type_name == "option" else []:
            assert name in answer.out


@pytest.mark.parametrize(
    ("verb", "words"),
    [("train", "(default: runs/RECIPE)"), ("evaluate", "(default: the run's)")],
)
def test_help_shows_a_default_that_depends_on_the_run(ease: Ease, verb: str, words: str) -> None:
    assert words in " ".join(ease(verb, "-h").out.replace("│", " ").split())


def test_help_of_all_names_every_verb(ease: Ease) -> None:
    answer = ease("-h")
    assert answer.code == 0
    for verb in VERBS:
        assert f" {verb} " in answer.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trian", "quickstart"), "No such command 'trian'"),
        (("train",), "Missing argument"),
        (("train", "quickstart", "--sett", "seed=1"), "No such option: --sett"),
        (("evaluate", "run", "--seq-len", "0"), "--seq-len"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    ease: Ease, arguments: tuple[str, ...], message: str
) -> None:
    answer = ease(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert "Traceback" not in answer.err
