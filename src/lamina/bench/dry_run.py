"""Dry run of a training: memory and time estimated from a few updates; writes nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from lamina.base.devices import choose_device
from lamina.base.files import StrPath
from lamina.base.malloc import tune_malloc
from lamina.base.progress import describe_duration
from lamina.base.wording import counted
from lamina.bench.training import WARM_UP, peak_memory, synchronise
from lamina.corpus.batches import Position
from lamina.corpus.prepared import PreparedData
from lamina.recipe.loader import Given, load_recipe_for
from lamina.store.run import Run
from lamina.training.distributed import Ranks
from lamina.training.reporters import NullReporter, describe_training
from lamina.training.start import Start, explain_choice
from lamina.training.trainer import Trainer

TIMED = 5  # updates
LARGEST = 2  # updates with the most padded tokens, for peak memory


def describe_plan(
    given: Given, data: StrPath, overrides: Sequence[str | tuple[str, Any]], start: Start
) -> Iterator[str]:
    """Yield lines on model, parameters, batches per epoch, memory and time."""
    tune_malloc()
    if start.threads is not None:
        torch.set_num_threads(start.threads)
    prepared = PreparedData(data)
    recipe = load_recipe_for(prepared, given, overrides)
    init_from, grow_from = (None if path is None else Path(path) for path in (start.init_from, start.grow_from))
    ranks = Ranks(0, 1, choose_device(start.device))
    yield from explain_choice(given, recipe, prepared)
    with TemporaryDirectory() as scratch:
        trainer = Trainer(recipe, prepared, Run(scratch), ranks, NullReporter(), init_from, grow_from)
        trainer.model.train()
        yield from describe_training(recipe, trainer.model, trainer.batches, ranks, trainer.objective.precision)
        yield from describe_model(trainer)
        seconds, memory = measure_updates(trainer)
    updates, steps = len(trainer.batches.updates(0)), recipe.train.max_steps
    yield f"batches: {counted(updates, 'update')} per epoch, {steps / updates:.1f} epochs in {counted(steps, 'update')}"
    yield f"memory: about {memory / 2**20:,.0f} MB peak"
    total = describe_duration(seconds * steps)
    yield f"time: about {total} on {ranks.device.type} ({seconds:.2f} s per update), plus validation and saving"


def describe_model(trainer: Trainer) -> Iterator[str]:
    """Describe the model's dimensions and the parameters of each part."""
    config, model = trainer.recipe.model, trainer.model
    yield (
        f"model: d_model {config.d_model}, feed-forward {config.ffn_size}, {counted(config.heads, 'head')}, "
        f"{config.depth()}, {config.norm}-norm, "
        f"vocabulary {config.source_vocab:,} and {config.target_vocab:,}"
    )
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():  # tied weights are counted once, at their first occurrence
        part = name.partition(".")[0].replace("_", " ")
        counts[part] = counts.get(part, 0) + parameter.numel()
    yield f"parameters: {', '.join(f'{count:,} {part}' for part, count in counts.items())}"


def measure_updates(trainer: Trainer) -> tuple[float, int]:
    """Measure the mean seconds of an update and the peak memory of the largest updates in bytes."""
    batches = trainer.batches
    updates = batches.updates(0)
    largest = sorted(updates, key=lambda pairs: -len(pairs) * int(batches.source_lengths[pairs].max()))[:LARGEST]
    for pairs in largest:
        trainer.update(batches.load(pairs))
    seconds = []
    for update, _ in islice(batches.iterate(Position()), WARM_UP + TIMED):
        started = time.perf_counter()
        trainer.update(update)
        synchronise(trainer.ranks.device)
        seconds.append(time.perf_counter() - started)
    return statistics.fmean(seconds[WARM_UP:]), peak_memory(trainer.ranks.device)
