"""Data flows one way through the packages, and so do imports; files and functions stay short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "ease"
BASE = ["errors", "settings", "storage"]
FLOW = [
    "data",
    "model",
    "exits",
    "inference",
    "evaluation",
    "calibration",
    "mining",
    "training",
    "reports",
    "recipes",
]
RANKS = {unit: rank for rank, unit in enumerate([*BASE, *FLOW])}
RANKS |= dict.fromkeys(["cli", "server"], len(RANKS))  # beside each other, on top
ENTRANCES = ["__init__", "__main__"]  # may import everything


def imported_modules(tree: ast.Module, package: list[str]) -> Iterator[str]:
    """Every module that a file imports, in functions and under conditions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            # `from ease import data` names a package, `from ease import load_model` the root.
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"ease(\.\w+)+", str(node.value)):
            yield str(node.value)  # importlib.import_module("ease.cli")


def violations(source: Path) -> list[str]:
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        own = parts[0]
        if own in ENTRANCES:
            continue
        if own not in RANKS:
            found.append(f"{own} has no place in the order")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for module in imported_modules(tree, ["ease", *parts[:-1]]):
            root, _, rest = module.partition(".")
            unit = rest.partition(".")[0]
            if root != "ease" or unit == own:
                continue
            if unit not in RANKS:
                found.append(f"{'/'.join(parts)} imports the root package: {module}")
            elif RANKS[unit] >= RANKS[own]:
                found.append(f"{'/'.join(parts)} imports {unit}")
    return found


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_a_package_imports_only_from_those_before_it() -> None:
    assert len(list(SOURCE.rglob("*.py"))) > 40
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("file", "code", "found"),
    [
        ("data/a.py", "import ease.model", "data/a imports model"),
        ("data/a.py", "from ease.training.trainer import PhaseTrainer", "data/a imports training"),
        ("model/a.py", "def f():\n    from ease.exits import policy", "model/a imports exits"),
        ("model/a.py", "if TYPE_CHECKING:\n    import ease.recipes", "model/a imports recipes"),
        ("model/a.py", "from ease import exits", "model/a imports exits"),
        ("model/a.py", "from ..exits import policy", "model/a imports exits"),
        ("model/deep/a.py", "from ...cli import main", "model/deep/a imports cli"),
        ("model/a.py", "from .. import exits", "model/a imports exits"),
        ("model/a.py", "import_module('ease.cli')", "model/a imports cli"),
        ("cli/a.py", "import ease.server", "cli/a imports server"),
        ("errors.py", "import ease.storage", "errors imports storage"),
        ("cli/a.py", "from ease import load_model", "cli/a imports the root package"),
        ("cli/a.py", "import ease", "cli/a imports the root package"),
        ("helpers/a.py", "", "helpers has no place in the order"),
    ],
)
def test_every_kind_of_import_against_the_order_is_caught(
    tmp_path: Path, file: str, code: str, found: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    [violation] = violations(tmp_path)
    assert violation.startswith(found)


def test_imports_along_the_order_and_from_elsewhere_are_fine(tmp_path: Path) -> None:
    for folder in ("model", "training/strategies"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "model" / "a.py").write_text(
        "import torch, ease.data\nfrom . import b\nfrom .b import c\n"
        "from ease.errors import X\nfrom ease import storage\nfrom model import y"
    )
    (tmp_path / "training" / "strategies" / "a.py").write_text(
        "from ..phase import Phase\nfrom ...model import StagedLM\nfrom ease.settings import S"
    )
    (tmp_path / "__init__.py").write_text("from ease.cli import main")
    assert violations(tmp_path) == []


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    for function in functions(ast.parse(text)):
        assert function.end_lineno is not None
        lines = function.end_lineno - function.lineno + 1
        assert lines <= 50, f"{function.name} has {lines} lines"


def test_nothing_is_called_utils() -> None:
    names = {path.stem for path in [*SOURCE.rglob("*"), *Path(__file__).parent.rglob("*.py")]}
    assert not names & {"utils", "util", "helpers", "misc", "common"}
