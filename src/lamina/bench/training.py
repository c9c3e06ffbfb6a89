"""Training speed and hardware utilisation."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from lamina.base.malloc import tune_malloc
from lamina.corpus.batches import Position, Update
from lamina.corpus.prepared import PreparedData
from lamina.recipe.loader import load_recipe_for
from lamina.store.run import Run
from lamina.text.vocabulary import PAD
from lamina.training.distributed import Ranks
from lamina.training.reporters import NullReporter
from lamina.training.trainer import Trainer

WARM_UP = 2  # updates


def benchmark_trainer(recipe: Path, overrides: Sequence[str], data: Path, run: Path, device: torch.device) -> Trainer:
    """Make a trainer like `lamina train`, for single updates; writes only records below `run`."""
    tune_malloc()
    prepared = PreparedData(data)
    run.mkdir(parents=True, exist_ok=True)
    ranks = Ranks(0, 1, device)
    trainer = Trainer(load_recipe_for(prepared, recipe, overrides), prepared, Run(run), ranks, NullReporter())
    trainer.model.train()
    return trainer


def measure_training(trainer: Trainer, steps: int) -> dict[str, Any]:
    """Measure the numbers of `lamina bench train`."""
    updates = [update for update, _ in islice(trainer.batches.iterate(Position()), WARM_UP + steps)]
    speeds, rates = [], []
    for number, update in enumerate(updates):
        started = time.perf_counter()
        trainer.update(update)
        synchronise(trainer.ranks.device)
        seconds = time.perf_counter() - started
        if number >= WARM_UP:
            speeds.append(real_tokens(update) / seconds)
            rates.append(seconds)
    memory = peak_memory(trainer.ranks.device)
    peak = matmul_peak(trainer.ranks.device)
    with FlopCounterMode(display=False) as counter:
        trainer.update(updates[-1])
    reached = counter.get_total_flops() / rates[-1]
    return {
        "steps": steps,
        "threads": torch.get_num_threads(),
        "device": str(trainer.ranks.device),
        "tokens_per_second": round(statistics.median(speeds)),
        "seconds_per_step": round(statistics.median(rates), 4),
        "matmul_peak_gflops": round(peak / 1e9, 1),
        "reached_gflops": round(reached / 1e9, 1),
        "share_of_peak": round(reached / peak, 3),
        "peak_memory_mb": round(memory / 2**20),
    }


def real_tokens(update: Update) -> int:
    """Source and target tokens without padding."""
    return sum(int((part != PAD).sum()) for batch in update.batches for part in (batch.source, batch.target))


def matmul_peak(device: torch.device, size: int = 2048, repeats: int = 5) -> float:
    """Best FLOP/s of several large square matrix products."""
    left, right = torch.randn(2, size, size, device=device)
    best = 0.0
    for _ in range(repeats):
        started = time.perf_counter()
        left @ right
        synchronise(device)
        best = max(best, 2 * size**3 / (time.perf_counter() - started))
    return best


def synchronise(device: torch.device) -> None:
    """Synchronise with a GPU; no-op on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(device: torch.device) -> int:
    """Peak memory in bytes: resident memory of the process on a CPU, allocated memory on a GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
