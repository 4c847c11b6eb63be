from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import types
from pathlib import Path

import pytest

import ease

NAMES = [
    "Batches",
    "Blocks",
    "Callback",
    "ConfigError",
    "Corpus",
    "DataConfig",
    "DataError",
    "DeepSupervisionTransformer",
    "EaseError",
    "ExitPolicy",
    "Figures",
    "InterruptedRunError",
    "LayerLosses",
    "LeakError",
    "MissingExtraError",
    "ModelConfig",
    "NonFiniteError",
    "OptimConfig",
    "Phase",
    "PhaseTrainer",
    "RoutedFigures",
    "RunConfig",
    "RunError",
    "SoftmaxConfidence",
    "Splits",
    "StageConfig",
    "StageOutput",
    "StageShape",
    "StagedLM",
    "StandardTransformer",
    "StopConfig",
    "StorageError",
    "Trainer",
    "TrainingConfig",
    "UsageError",
    "create_deep_supervision_config",
    "create_standard_config",
    "evaluate_exits",
    "evaluate_folder",
    "evaluate_routed",
    "load_corpus",
    "load_model",
    "load_recipe",
    "load_tokenizer",
    "recipe_names",
    "save_model",
    "train_recipe",
]

MAIN_CLASSES = [
    "DeepSupervisionTransformer",
    "StageConfig",
    "StagedLM",
    "StandardTransformer",
    "Trainer",
    "TrainingConfig",
]

# Functions whose docstring still owes an example. Write one, and take the name off.
# What an example may leave out, since it trains for minutes.
SKIPPED = {"ease.recipes.run.train_recipe"}

SOURCE = Path(ease.__file__).parent
NEEDS_TRITON = {"ease.model.fused_loss"}


def module_names() -> list[str]:
    found = pkgutil.walk_packages([str(SOURCE)], "ease.")
    return ["ease", *(module.name for module in found if module.name != "ease.__main__")]


def source_of(name: str) -> Path:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def documented_examples(name: str) -> set[str]:
    """What has an example in a module, read from its text alone."""
    tree, found = ast.parse(source_of(name).read_text(encoding="utf-8")), set()

    def visit(node: ast.AST, path: str) -> None:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not isinstance(node, ast.Module):
                path = f"{path}.{node.name}"
            if ">>>" in (ast.get_docstring(node) or ""):
                found.add(path)
        for child in ast.iter_child_nodes(node):
            visit(child, path)

    visit(tree, name)
    return found


def test_the_public_names_are_these() -> None:
    assert sorted(ease.__all__) == sorted(NAMES)
    assert len(set(ease.__all__)) == len(ease.__all__)
    for name in NAMES:
        assert getattr(ease, name).__name__ == name


def test_nothing_else_is_public() -> None:
    others = {
        name
        for name, value in vars(ease).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert others == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_is(name: str) -> None:
    documented = getattr(ease, name).__doc__
    assert documented
    # What dataclass and pydantic write by themselves is no documentation.
    assert not documented.startswith(f"{name}(")


@pytest.mark.parametrize("name", NAMES)
def test_functions_and_main_classes_show_an_example(name: str) -> None:
    value = getattr(ease, name)
    if inspect.isfunction(value) or name in MAIN_CLASSES:
        assert ">>>" in value.__doc__


@pytest.mark.parametrize("name", module_names())
def test_the_examples_run(name: str) -> None:
    wanted = documented_examples(name)
    if name in NEEDS_TRITON and importlib.util.find_spec("triton") is None:
        assert not wanted  # else they would go unseen here
        return
    tests = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    ran = {test.name for test in tests if test.examples}
    assert ran == wanted
    for test in tests:
        skips = [doctest.SKIP in example.options for example in test.examples]
        assert any(skips) == (test.name in SKIPPED)
        said: list[str] = []
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
        assert results.failed == 0, "".join(said)


def test_examples_are_there_to_run() -> None:
    everything = set().union(*(documented_examples(name) for name in module_names()))
    assert len(everything) >= 10
    assert everything >= SKIPPED
