"""What every test shares: small settings, a place for caches, and the larger data where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("ease", deadline=None)
settings.load_profile("ease")

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same sums on every machine, and no file outside the test's folders."""
    torch.set_num_threads(2)
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.fixture(scope="session")
def wikitext() -> Path:
    folder = SHARED_DATA / "wikitext-2"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here: the test needs WikiText-2")
    return folder
