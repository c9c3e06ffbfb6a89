"""What a run reports: lines for people, records for programs. The terminal's bar is the command line's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from lamina.corpus.batches import Batches
from lamina.errors import MissingExtraError
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.schema import Recipe
from lamina.store.run import Run
from lamina.training.distributed import Ranks


class Reporter(Protocol):
    """What the trainer tells."""

    def say(self, line: str) -> None: ...  # for people

    def record(self, record: dict[str, Any]) -> None: ...  # its `kind` is train, valid or gradients

    def progress(self, step: int, total: int, loss: float, speed: float) -> None: ...  # after every step


class NullReporter:
    """Reports nothing: ranks other than the first, and benchmarks."""

    def say(self, line: str) -> None:
        return

    def record(self, record: dict[str, Any]) -> None:
        return

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        return


class RunReporter(NullReporter):
    """Writes `train.log` and `metrics.jsonl`, and TensorBoard's log if asked."""

    def __init__(self, run: Run, tensorboard: bool = False) -> None:
        self.run = run
        self.board = open_tensorboard(run) if tensorboard else None

    def say(self, line: str) -> None:
        with (self.run.folder / "train.log").open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")

    def record(self, record: dict[str, Any]) -> None:
        with self.run.metrics.open("a", encoding="utf-8") as records:
            records.write(json.dumps(record) + "\n")
        if self.board is not None:
            for name, value in scalars(record):
                self.board.add_scalar(name, value, record["step"])

    def close(self) -> None:
        if self.board is not None:
            self.board.close()


def open_tensorboard(run: Run) -> Any:
    """A writer of `RUN/tensorboard`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("--tensorboard", "track") from error
    return SummaryWriter(str(run.folder / "tensorboard"))


def scalars(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """A record as curves: train/loss, valid/perplexity, gradients/encoder_00 …"""
    for key, value in record.items():
        if isinstance(value, list):
            yield from ((f"{record['kind']}/{key}_{number:02}", each) for number, each in enumerate(value))
        elif key not in ("kind", "step"):
            yield f"{record['kind']}/{key}", value


def describe_training(recipe: Recipe, model: Seq2Seq, batches: Batches, ranks: Ranks, precision: str) -> Iterator[str]:
    """What is trained, on what and where."""
    config, parameters = recipe.model, sum(parameter.numel() for parameter in model.parameters())
    yield (
        f"{recipe.name}: {config.encoder.type} × {config.bridge.type} × {config.head.type}, {parameters:,} parameters, "
        f"{len(batches.split):,} pairs, {recipe.train.max_steps:,} steps on {ranks.count} × {ranks.device.type} "
        f"in {precision}"
    )
    oversized = len(batches.oversized())
    if oversized:
        yield f"{oversized:,} pairs exceed train.batch_tokens; each forms its own batch."
