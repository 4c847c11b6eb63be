"""What a user sees while a run goes on: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ease.errors import InterruptedRunError
from ease.training import Callback, Evaluation

PLAIN_SECONDS = 15.0


class Display(Callback):
    """Plain lines on standard error: one an evaluation, and a sign of life between them."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.spoke = time.monotonic()

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        self.spoke = time.monotonic()

    def on_phase_start(self, phase: str, step: int, total_steps: int | None) -> None:
        self.total = total_steps
        at_most = "" if total_steps is None else f", at most {total_steps:,} steps"
        self.say(f"phase        {phase}{at_most}" + (f", from step {step:,}" if step else ""))

    def on_step(self, step: int, loss: float) -> None:
        if time.monotonic() - self.spoke > PLAIN_SECONDS:
            of = "" if self.total is None else f"/{self.total:,}"
            self.say(f"step {step:,}{of}  loss {loss:.3f}")

    def on_evaluation(self, evaluation: Evaluation) -> None:
        exits = "  ".join(
            f"exit {layer}: {figures.ppl:,.2f}" for layer, figures in evaluation.exits.items()
        )
        best = "  best so far" if evaluation.improved else ""
        self.say(
            f"epoch {evaluation.epoch}  step {evaluation.step:,}  "
            f"train loss {evaluation.train_loss:.3f}  ppl at {exits}{best}"
        )

    def on_phase_end(self, best: Evaluation, stopped_early: bool) -> None:
        how = "stopped early" if stopped_early else "done"
        self.say(f"{how}; best at step {best.step:,}, its weights are restored")


class LiveDisplay(Display):
    """The same lines above a live bar."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task = self.progress.add_task("preparing", total=None, loss="-")

    def say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def on_phase_start(self, phase: str, step: int, total_steps: int | None) -> None:
        super().on_phase_start(phase, step, total_steps)
        self.progress.reset(self.task, total=total_steps, completed=step, description=phase)

    def on_step(self, step: int, loss: float) -> None:
        self.progress.update(self.task, completed=step, loss=f"{loss:.3f}")


@contextmanager
def open_display() -> Iterator[Display]:
    """Live where standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Display()
        return
    live = LiveDisplay(console)
    with live.progress:
        yield live


class StopBetweenSteps(Callback):
    """The first Ctrl-C lets the step end and the run be saved; the second stops at once."""

    def __init__(self) -> None:
        self.training = False
        self.asked = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked or not self.training:
            raise KeyboardInterrupt
        self.asked = True
        print("stopping after this step; press again to stop at once", file=sys.stderr)

    def on_phase_start(self, phase: str, step: int, total_steps: int | None) -> None:
        self.training = True

    def on_step(self, step: int, loss: float) -> None:
        if self.asked:
            raise InterruptedRunError("stopped")

    def on_phase_end(self, best: Evaluation, stopped_early: bool) -> None:
        self.training = False


@contextmanager
def interruptible() -> Iterator[StopBetweenSteps]:
    """While it lasts, SIGINT and SIGTERM stop the run between two steps."""
    stop = StopBetweenSteps()
    before = {
        number: signal.signal(number, stop.handle) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
