"""A run that is stopped in the middle, and what goes on from there."""

from __future__ import annotations

import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ease import Callback, InterruptedRunError, train_recipe
from ease.recipes import RunFolder

from .commands import Ease, settings, start, text

LONG = {
    "model__exits": "[1, 2]",
    "model__dropout": 0.1,
    "optim__warmup_steps": 10,
    "stop__max_steps": 300,
    "stop__max_epochs": 1000,
    "stop__evaluate_every": 20,
    "data__seq_len": 32,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("interrupted")
    (path / "text.txt").write_text(text(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def uninterrupted(folder: Path) -> Path:
    run, _ = train_recipe("quickstart", long_settings(folder)[1::2], folder / "whole")
    return run


def long_settings(folder: Path) -> list[str]:
    return settings(folder / "text.txt", **LONG)


def read_until(process: subprocess.Popen[str], evaluations: int) -> None:
    """Wait until the run has shown so many evaluations."""
    assert process.stderr is not None
    for line in process.stderr:
        evaluations -= line.startswith("epoch ")
        if evaluations == 0:
            return
    raise AssertionError("the run ended before it could be stopped")


def assert_equal_runs(left: Path, right: Path) -> None:
    def facts(path: Path) -> list[Any]:
        run = RunFolder(path)
        files = [run.metrics_file, run.model / "model.safetensors", run.config_file]
        return [*(file.read_bytes() for file in files), run.result()["splits"]]

    assert facts(left) == facts(right)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run_and_the_printed_command_ends_it_as_if_nothing_had_been(
    folder: Path, uninterrupted: Path, ease: Ease, number: signal.Signals
) -> None:
    run = folder / f"stopped by {number.name}"
    process = start("train", "quickstart", *long_settings(folder), "--out", run, cwd=folder)
    read_until(process, evaluations=2)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    *_, last = err.splitlines()
    assert "Traceback" not in err
    said, _, command = last.partition("to go on: ")
    assert said == "ease: interrupted; "
    assert RunFolder(run).state_file.is_file()
    assert not RunFolder(run).finished
    name, *arguments = shlex.split(command)
    answer = ease(*arguments)
    assert (name, answer.code) == ("ease", 0)
    assert "resuming at step " in answer.err
    assert_equal_runs(run, uninterrupted)


def test_a_killed_run_goes_on_from_its_last_evaluation(
    folder: Path, uninterrupted: Path, ease: Ease
) -> None:
    run = folder / "killed"
    arguments = ["train", "quickstart", *long_settings(folder), "--out", run]
    process = start(*arguments, cwd=folder)
    read_until(process, evaluations=3)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    answer = ease(*arguments, "--resume")
    assert answer.code == 0
    step = int(answer.err.partition("resuming at step ")[2].split()[0])
    assert step >= 40
    assert step % 20 == 0
    assert_equal_runs(run, uninterrupted)


def test_a_run_that_is_stopped_between_evaluations_goes_on_from_its_last_step(
    folder: Path, uninterrupted: Path, ease: Ease
) -> None:
    class StopAtStep33(Callback):
        def on_step(self, step: int, loss: float) -> None:
            if step == 33:
                raise InterruptedRunError("stopped")

    run = folder / "stopped at 33"
    arguments = long_settings(folder)
    with pytest.raises(InterruptedRunError):
        train_recipe("quickstart", arguments[1::2], run, watchers=[StopAtStep33()])
    answer = ease("train", "quickstart", *arguments, "--out", run, "--resume")
    assert answer.code == 0
    assert "resuming at step 33 of phase deep-supervision" in answer.err
    assert_equal_runs(run, uninterrupted)


def test_the_weights_of_a_run_do_not_depend_on_its_folder(
    folder: Path, uninterrupted: Path, ease: Ease
) -> None:
    run = folder / "again"
    assert ease("train", "quickstart", *long_settings(folder), "--out", run).code == 0
    assert_equal_runs(run, uninterrupted)


def test_a_damaged_checkpoint_is_named(source: Path, ease: Ease) -> None:
    assert ease("train", "quickstart", *settings(source), "--out", "run").code == 0
    run = RunFolder(Path("run"))
    run.result_file.unlink()
    run.state_file.write_bytes(run.state_file.read_bytes()[:-500])
    answer = ease("train", "quickstart", *settings(source), "--out", "run", "--resume")
    assert (answer.code, answer.out) == (2, "")
    assert "run/checkpoints/state.pt is damaged; start the run afresh" in answer.complaint
