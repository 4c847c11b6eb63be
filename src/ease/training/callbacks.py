"""Who watches a phase."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ease.evaluation import Figures
from ease.storage import write_text, writing


@dataclass(frozen=True)
class Evaluation:
    """One look at held-out data during a phase. Epochs and steps count from 1."""

    phase: str
    epoch: int
    step: int
    train_loss: float  # the mean over the steps since the last evaluation
    exits: dict[int, Figures]
    improved: bool
    since_best: int  # evaluations without improvement so far

    @property
    def judged(self) -> Figures:
        """The figures early stopping goes by: the deepest exit's."""
        return self.exits[max(self.exits)]

    def as_json(self) -> dict[str, object]:
        record = asdict(self)
        record["exits"] = {str(layer): figures.as_json() for layer, figures in self.exits.items()}
        return record


class Callback:
    """Override what you want to see. Raising from `on_step` stops the phase between two steps."""

    def on_phase_start(self, phase: str, step: int, total_steps: int | None) -> None:
        pass

    def on_step(self, step: int, loss: float) -> None:
        pass

    def on_evaluation(self, evaluation: Evaluation) -> None:
        pass

    def on_phase_end(self, best: Evaluation, stopped_early: bool) -> None:
        pass


class MetricsFile(Callback):
    """One JSON line an evaluation in `metrics.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0

    def on_evaluation(self, evaluation: Evaluation) -> None:
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(evaluation.as_json()) + "\n")
        self.lines += 1

    def rewind(self, lines: int) -> None:
        """Forget what came after a checkpoint that is being resumed."""
        if self.path.exists():
            kept = self.path.read_text(encoding="utf-8").splitlines(keepends=True)[:lines]
            write_text(self.path, "".join(kept))
        self.lines = lines
