from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[[str, Sequence[object]], Path]:
    """Write rows as a jsonl file below the test's folder."""

    def write(name: str, rows: Sequence[object]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
