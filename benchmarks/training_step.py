"""The training step against a plain loop, side by side in one process.

The plain loop is what one writes by hand: it holds the logits of every token, calls `.item()` each
step, and uses AdamW as torch builds it. Both train the specification's model (dim 64, 4 layers,
post-norm, batch 64 x 32) from the same weights on the same random tokens.

    python benchmarks/training_step.py [--device cpu] [--threads 2] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from ease import LayerLosses, StandardTransformer
from ease.training import build_optimizer
from ease.training.step import build_step

BATCH, SEQ, LAYERS = 64, 32, 4
VOCABULARIES = (28_912, 69_830)
Step = Callable[[Tensor, Tensor], float]


def build_model(vocab: int, device: str) -> StandardTransformer:
    torch.manual_seed(0)
    return StandardTransformer(vocab, dim=64, num_layers=LAYERS).to(device)


def plain_step(model: StandardTransformer) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Tensor, y: Tensor) -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def ease_step(model: StandardTransformer, precision: str) -> Step:
    dtype = torch.bfloat16 if precision == "bf16" else None
    optimizer = build_optimizer(model.lm, lr=1e-3, weight_decay=0.01)
    step = build_step(model.lm, LayerLosses({LAYERS: 1.0}), optimizer, 1.0, dtype)
    return lambda x, y: step([(x, y)])


def build(kind: str, vocab: int, device: str) -> Step:
    model = build_model(vocab, device)
    return plain_step(model) if kind == "plain" else ease_step(model, kind)


def batches(vocab: int, device: str, count: int, rows: int = BATCH) -> list[tuple[Tensor, Tensor]]:
    """Tokens with the skew of text, so that the loss falls as it does in training."""
    generator = torch.Generator().manual_seed(1)
    ranks = torch.arange(1, vocab + 1, dtype=torch.float64)
    tokens = torch.multinomial(
        1 / ranks, count * rows * (SEQ + 1), replacement=True, generator=generator
    ).view(count, rows, SEQ + 1)
    return [(t[:, :-1].contiguous().to(device), t[:, 1:].contiguous().to(device)) for t in tokens]


def compare(vocab: int, device: str, kinds: list[str], rounds: int, steps: int) -> dict[str, dict]:
    """Median seconds a step, in turns so that a noisy machine disturbs all kinds alike."""
    data = batches(vocab, device, (rounds + 1) * steps)  # each once: nothing to learn by heart
    runners = {kind: build(kind, vocab, device) for kind in kinds}
    losses: dict[str, list[float]] = {kind: [] for kind in kinds}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(rounds + 1):
        for kind, step in runners.items():
            began = time.perf_counter()
            for number in range(steps):
                losses[kind].append(step(*data[turn * steps + number]))
            if device == "cuda":
                torch.cuda.synchronize()
            if turn:  # the first turn warms up
                times[kind].append((time.perf_counter() - began) / steps)
    return {
        kind: {
            "seconds": statistics.median(times[kind]),
            "loss_after": losses[kind][-1],
            "worst_loss_difference": max(
                abs(a - b) / b for a, b in zip(losses[kind], losses["plain"], strict=True)
            ),
        }
        for kind in kinds
    }


def peak_memory(kind: str, vocab: int, device: str) -> int:
    """Bytes above what the process held before the model, over five steps; in a fresh process."""
    command = [sys.executable, __file__, "--memory", kind, str(vocab), "--device", device]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def resident(field: str) -> int:
    """Bytes of main memory, now (VmRSS) or at the peak (VmHWM); Linux only."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def measure_memory(kind: str, vocab: int, device: str) -> None:
    on_gpu = device == "cuda"
    if not on_gpu:  # a tiny model first, so that the library's own pages are not counted
        take_steps(kind, 100, device, rows=2)
    before = torch.cuda.memory_allocated() if on_gpu else resident("VmRSS")
    take_steps(kind, vocab, device, rows=BATCH)
    after = torch.cuda.max_memory_allocated() if on_gpu else resident("VmHWM")
    print(after - before)


def take_steps(kind: str, vocab: int, device: str, rows: int) -> None:
    step, data = build(kind, vocab, device), batches(vocab, device, 1, rows)
    for _ in range(5):
        step(*data[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--memory", nargs=2, metavar=("KIND", "VOCAB"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory:
        measure_memory(options.memory[0], int(options.memory[1]), options.device)
        return
    on_gpu = options.device == "cuda"
    kinds = ["plain", "fp32", "bf16"] if on_gpu else ["plain", "fp32"]
    rounds, steps = (15, 40) if on_gpu else (7, 3)
    name = torch.cuda.get_device_name() if on_gpu else f"{platform.machine()} CPU"
    print(f"{name}, torch {torch.__version__}, {options.threads} threads, batch {BATCH} x {SEQ}")
    print("types   step   s/step   speed-up  peak MB  memory  worst loss difference")
    rows = []
    for vocab in VOCABULARIES:
        result = compare(vocab, options.device, kinds, rounds, steps)
        for kind, row in result.items():
            row["peak_bytes"] = peak_memory(kind, vocab, options.device)
            row |= {"vocab": vocab, "kind": kind}
            row["speed_up"] = result["plain"]["seconds"] / row["seconds"]
            row["memory_share"] = row["peak_bytes"] / result["plain"]["peak_bytes"]
            rows.append(row)
            print(
                f"{vocab:<7} {kind:<6} {row['seconds']:.5f}  {row['speed_up']:.2f}x     "
                f"{row['peak_bytes'] / 2**20:,.0f}     {row['memory_share']:.0%}    "
                f"{row['worst_loss_difference']:.3%}"
            )
    if options.out:
        machine = {"device": name, "torch": torch.__version__, "threads": options.threads}
        options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
