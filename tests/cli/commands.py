"""What the command-line tests share: tiny settings, and how a command is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "one", "old", "red", "hen", "ran", "far"]
TINY = {
    "device": "cpu",
    "data.tokenizer": "byte",
    "data.seq_len": 8,
    "model.dim": 16,
    "model.num_heads": 2,
    "model.num_layers": 2,
    "model.exits": "[1, 2]",
    "optim.batch_size": 8,
    "optim.warmup_steps": 0,
    "stop.max_steps": 2,
}


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that says what went wrong."""
        assert "Traceback" not in self.err
        lines = self.err.splitlines()
        assert [line for line in lines if line.startswith("ease: ")] == lines[-1:]
        return lines[-1]


Ease = Callable[..., Answer]


def text(words: int = 2000) -> str:
    """The same few words in an order that does not repeat soon; about 4 bytes a word."""
    picked = (WORDS[number * number * 7 % 61 % len(WORDS)] for number in range(words))
    lines = re.sub(r"((?:\S+ ){8}\S+) ", r"\1\n", " ".join(picked))
    return lines + "\n"


def settings(source: Path | str, **changes: object) -> list[str]:
    """`--set` options of a tiny run; a key's dot is written as two underscores."""
    values = {"data.source": source, **TINY}
    values |= {key.replace("__", "."): value for key, value in changes.items()}
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """`ease` as a process of its own, on one thread as the tests are."""
    return subprocess.Popen(
        [sys.executable, "-m", "ease", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
