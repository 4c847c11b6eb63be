from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread(_two_threads: None) -> None:
    """Models this small only wait for a second thread."""
    torch.set_num_threads(1)
