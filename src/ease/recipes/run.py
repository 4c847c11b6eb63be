"""Runs a recipe from its text to its result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ease.data import Batches, Corpus, ProtocolName, Reader, Say, SplitName, load_corpus
from ease.errors import ConfigError, DataError, InterruptedRunError
from ease.evaluation import evaluate_exits
from ease.evaluation.result import model_result, protocol_result, split_result, versions
from ease.model import StagedLM, save_model
from ease.recipes.run_config import RunConfig, load_recipe
from ease.recipes.run_folder import RunFolder, choose_folder
from ease.storage import write_folder, write_json
from ease.training import Callback, Evaluation, MetricsFile, PhaseTrainer

CHECKPOINT_SECONDS = 300.0
# What early stopping goes by, and what the final figures are of.
JUDGED_ON: dict[ProtocolName, SplitName] = {"honest": "selection", "reference": "validation"}
REPORTED: dict[ProtocolName, tuple[SplitName, ...]] = {
    "honest": ("selection", "test"),
    "reference": ("validation", "test"),
}


def choose_device(wanted: str) -> torch.device:
    if wanted not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device={wanted}: choose auto, cpu or cuda")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda: torch sees no GPU here; set device=cpu or auto")
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)


class Run:
    """One run of a recipe in its folder: new, or going on from its last checkpoint."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        say: Say = lambda line: None,
        watchers: Sequence[Callback] = (),
    ) -> None:
        self.config = config
        self.folder = folder
        self.say = say
        self.watchers = watchers
        self.device = choose_device(config.device)

    def train(self) -> dict[str, Any]:
        """Everything, to the end; returns what `result.json` holds, also of an earlier session."""
        if self.folder.finished:
            return self.folder.result()
        state = self.folder.load_state()
        corpus = load_corpus(self.config.data, self.config.protocol, progress=self.say)
        for line in corpus.lines:
            self.say(line)
        if state and state["data"] != corpus.hashes:
            raise DataError(
                f"the text of {corpus.name} is not what {self.folder.path} was started on: "
                "start a new run"
            )
        batches = self._open(corpus)
        model = self._model(corpus)
        self.folder.create(self.config)
        seconds = self._train(model, batches, corpus, state)
        write_folder(self.folder.model, lambda path: self._fill_model_folder(path, model, corpus))
        self.say("evaluating the best weights")
        began = time.monotonic()
        splits = {
            name: split_result(evaluate_exits(model, batches[name, "report"]))
            for name in REPORTED[self.config.protocol]
        }
        result = {
            "recipe": self.config.recipe,
            **protocol_result(self.config.protocol),
            "data": {"name": corpus.name, "hashes": corpus.hashes, "tokens": corpus.tokens},
            "model": model_result(model),
            "seed": self.config.seed,
            "splits": splits,
            "time": {
                "train_seconds": round(seconds, 3),
                "test_seconds": round(time.monotonic() - began, 3),
                "threads": torch.get_num_threads(),
            },
            "versions": versions(self.device),
        }
        write_json(self.folder.result_file, result)
        return result

    def _open(self, corpus: Corpus) -> dict[tuple[SplitName, Reader], Batches]:
        """Everything that the run will read, before anything is spent on training."""
        protocol = self.config.protocol
        wanted: list[tuple[SplitName, Reader]] = [
            ("train", "training"),
            (JUDGED_ON[protocol], "selection"),
            *((name, "report") for name in REPORTED[protocol]),
        ]
        return {key: open_batches(corpus, self.config, *key) for key in wanted}

    def _model(self, corpus: Corpus) -> StagedLM:
        torch.manual_seed(self.config.seed)
        shape = self.config.model.build(corpus.tokenizer.vocab_size)
        model = StagedLM(shape).to(self.device)
        exits = ", ".join(map(str, model.exits))
        self.say(
            f"model        {model.num_parameters():,} parameters, {model.num_layers} layers, "
            f"exits after {exits}, on {self.device.type}"
        )
        return model

    def _train(
        self,
        model: StagedLM,
        batches: Mapping[tuple[SplitName, Reader], Batches],
        corpus: Corpus,
        state: dict[str, Any] | None,
    ) -> float:
        """Run every phase; returns the seconds that it took, earlier sessions included."""
        judged_on = JUDGED_ON[self.config.protocol]
        judging = batches[judged_on, "selection"]
        self.say(f"judged on    {judged_on}: the best weights are those with its lowest loss")
        metrics = MetricsFile(self.folder.metrics_file)
        metrics.rewind(state["metrics"] if state else 0)
        keeper = Checkpointer(self.folder, corpus.hashes, metrics, state)
        phases = self.config.strategy.phases(model, self.config.optim, self.config.stop)
        for index, phase in list(enumerate(phases))[keeper.phase :]:
            trainer = PhaseTrainer(
                model,
                phase,
                batches["train", "training"],
                judge=lambda: evaluate_exits(model, judging, reader="selection"),
                callbacks=[metrics, *self.watchers, keeper],
            )
            if state:
                trainer.load_state_dict(state["trainer"])
                self.say(f"resuming at step {trainer.progress.step} of phase {phase.name}")
                state = None
            keeper.watch(index, trainer)
            try:
                trainer.run()
            except InterruptedRunError:
                keeper.save()
                raise
            keeper.save()
        return keeper.seconds()

    def _fill_model_folder(self, path: Path, model: StagedLM, corpus: Corpus) -> None:
        save_model(model, path)
        corpus.tokenizer.save(path)


class Checkpointer(Callback):
    """Saves what `--resume` needs: at each evaluation, and every few minutes between them."""

    def __init__(
        self,
        folder: RunFolder,
        hashes: Mapping[SplitName, str],
        metrics: MetricsFile,
        state: dict[str, Any] | None,
    ) -> None:
        self.folder = folder
        self.hashes = hashes
        self.metrics = metrics
        self.phase: int = state["phase"] if state else 0
        self.began = time.monotonic() - (state["seconds"] if state else 0.0)
        self.saved = time.monotonic()
        self.trainer: PhaseTrainer | None = None

    def watch(self, phase: int, trainer: PhaseTrainer) -> None:
        self.phase, self.trainer = phase, trainer

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def save(self) -> None:
        assert self.trainer is not None
        self.folder.save_state(
            {
                "phase": self.phase,
                "data": dict(self.hashes),
                "metrics": self.metrics.lines,
                "seconds": self.seconds(),
                "trainer": self.trainer.state_dict(),
            }
        )
        self.saved = time.monotonic()

    def on_step(self, step: int, loss: float) -> None:
        if time.monotonic() - self.saved > CHECKPOINT_SECONDS:
            self.save()

    def on_evaluation(self, evaluation: Evaluation) -> None:
        self.save()


def open_batches(corpus: Corpus, config: RunConfig, split: SplitName, reader: Reader) -> Batches:
    """Training batches are whole, and shuffled under `honest`; held-out text is read to its end.

    The reference protocol reads everything in order and drops incomplete batches everywhere.
    """
    training = reader == "training"
    reference = config.protocol == "reference"
    return Batches(
        corpus.splits.open(split, reader),
        config.optim.batch_size,
        shuffle=training and not reference,
        seed=config.seed,
        drop_last=training or reference,
    )


def train_recipe(
    recipe: str,
    settings: Sequence[str] = (),
    out: Path | None = None,
    resume: bool = False,
    say: Say = lambda line: None,
    watchers: Sequence[Callback] = (),
) -> tuple[Path, dict[str, Any]]:
    """What `ease train` does: returns the run's folder and what its `result.json` holds.

    >>> from ease import train_recipe
    >>> folder, result = train_recipe("quickstart", ["stop.max_steps=100"])  # doctest: +SKIP
    >>> result["splits"]["test"]["exits"]["2"]["ppl"]  # doctest: +SKIP
    """
    config = load_recipe(recipe, settings)
    folder = choose_folder(config, out, resume)
    return folder.path, Run(config, folder, say, watchers).train()
