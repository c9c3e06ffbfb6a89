"""Training reports: log lines and machine-readable records. The terminal's progress bar is in `lamina.cli`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from lamina.base.files import errors_named
from lamina.base.progress import StatusLine, describe_duration, draw_bar
from lamina.base.wording import counted
from lamina.corpus.batches import Batches
from lamina.errors import MissingExtraError
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.schema import Recipe
from lamina.store.run import Run
from lamina.training.distributed import Ranks
from lamina.training.statistics import perplexity


class Reporter(Protocol):
    """Receives the trainer's reports."""

    @property
    def stopped(self) -> bool: ...  # whether to stop training after this step

    def say(self, line: str) -> None: ...  # a log line

    def record(self, record: dict[str, Any]) -> None: ...  # `kind` is train, valid or gradients

    def progress(self, step: int, total: int, loss: float, speed: float) -> None: ...  # after every step

    def validating(self, done: int, total: int) -> None: ...  # counts batches, or sentences for BLEU

    def saved(self, step: int, folder: Path, best: bool) -> None: ...  # after every checkpoint


class NullReporter:
    """Reports nothing: ranks other than the first, and benchmarks."""

    stopped = False

    def say(self, line: str) -> None:
        return

    def record(self, record: dict[str, Any]) -> None:
        return

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        return

    def validating(self, done: int, total: int) -> None:
        return

    def saved(self, step: int, folder: Path, best: bool) -> None:
        return


class Reporters(NullReporter):
    """Forwards to several reporters."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self.reporters = reporters

    @property
    def stopped(self) -> bool:  # type: ignore[override]
        return any(reporter.stopped for reporter in self.reporters)

    def say(self, line: str) -> None:
        for reporter in self.reporters:
            reporter.say(line)

    def record(self, record: dict[str, Any]) -> None:
        for reporter in self.reporters:
            reporter.record(record)

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        for reporter in self.reporters:
            reporter.progress(step, total, loss, speed)

    def validating(self, done: int, total: int) -> None:
        for reporter in self.reporters:
            reporter.validating(done, total)

    def saved(self, step: int, folder: Path, best: bool) -> None:
        for reporter in self.reporters:
            reporter.saved(step, folder, best)


class LineReporter(NullReporter):
    """Prints log lines and, in a terminal or notebook, a status line below them."""

    def __init__(self) -> None:
        self.line, self.started, self.first = StatusLine(), time.monotonic(), -1

    def say(self, line: str) -> None:
        self.line.clear()
        print(line, file=sys.stderr)

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        if self.first < 0:
            self.first, self.started = step, time.monotonic()
        done = step - self.first
        left = f"  {describe_duration((total - step) * (time.monotonic() - self.started) / done)} left" if done else ""
        self.line.show(f"training  {draw_bar(step, total)}  loss {loss:.3f}  {speed:,.0f} tok/s{left}")

    def validating(self, done: int, total: int) -> None:
        self.line.show(f"validating  {draw_bar(done, total)}")

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.clear()


class RunReporter(NullReporter):
    """Writes `train.log`, `metrics.jsonl` and, optionally, TensorBoard logs."""

    def __init__(self, run: Run, tensorboard: bool = False) -> None:
        self.run = run
        self.board = open_tensorboard(run) if tensorboard else None

    def say(self, line: str) -> None:
        path = self.run.folder / "train.log"
        with errors_named(path), path.open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")

    def record(self, record: dict[str, Any]) -> None:
        with errors_named(self.run.metrics), self.run.metrics.open("a", encoding="utf-8") as records:
            records.write(json.dumps(record) + "\n")
        if self.board is not None:
            for name, value in scalars(record):
                self.board.add_scalar(name, value, record["step"])

    def __enter__(self) -> RunReporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.board is not None:
            self.board.close()


def open_tensorboard(run: Run) -> Any:
    """Open a TensorBoard writer in `RUN/tensorboard`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("TensorBoard", "track") from error
    return SummaryWriter(str(run.folder / "tensorboard"))


def scalars(record: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Flatten a record into named scalars: train/loss, valid/perplexity, gradients/encoder_00 …"""
    for key, value in record.items():
        if isinstance(value, list):
            yield from ((f"{record['kind']}/{key}_{number:02}", each) for number, each in enumerate(value))
        elif key not in ("kind", "step"):
            yield f"{record['kind']}/{key}", value


def describe_training(recipe: Recipe, model: Seq2Seq, batches: Batches, ranks: Ranks, precision: str) -> Iterator[str]:
    """Describe model, data and devices in log lines."""
    config, parameters = recipe.model, sum(parameter.numel() for parameter in model.parameters())
    yield (
        f"{recipe.name}: {config.encoder.type} × {config.bridge.type} × {config.head.type}, {parameters:,} parameters, "
        f"{counted(len(batches.split), 'pair')}, {counted(recipe.train.max_steps, 'step')} "
        f"on {describe_devices(ranks)} in {precision}"
    )
    oversized = len(batches.oversized())
    if oversized:
        yield f"Pairs longer than train.batch_tokens: {oversized:,}; each forms its own batch."


def describe_devices(ranks: Ranks) -> str:
    """Describe the devices: 2 CPU threads, 4 × cuda."""
    if ranks.device.type != "cpu":
        return f"{ranks.count} × {ranks.device.type}"
    threads = torch.get_num_threads()
    words = counted(threads, "CPU thread")
    return words if ranks.count == 1 else f"{ranks.count} × {words}"


def describe_step(record: dict[str, Any], left: float | None) -> str:
    """Format a training log line; ppl is e^nll."""
    words = f"step {record['step']}  epoch {record['epoch']}  {describe_loss(record)}  lr {record['lr']:.2e}"
    words += f"  {record['tokens_per_second']:,} tok/s"
    return words if left is None else f"{words}  {describe_duration(left)} left"


def describe_validation(record: dict[str, Any]) -> str:
    """Format a validation log line."""
    words = f"step {record['step']}  valid {describe_loss(record)}"
    if "normalised_nll" in record:  # the head's mass is below 1: only the normalised value is comparable across systems
        words += f" (normalised {record['normalised_perplexity']:.2f})"
    if "bleu" in record:
        words += f"  bleu {record['bleu']:.2f}"
    return f"{words}  best" if record["best"] else words


def describe_end(step: int, chosen: int, run: Run, stale: int) -> str:
    """Format the last log line; `stale` validations without improvement may have ended training early."""
    reason = f", after {counted(stale, 'validation')} without improvement" if stale else ""
    return f"Done at step {step}{reason}. The model of step {chosen} is in {run.folder / 'model'}."


def describe_loss(record: dict[str, Any]) -> str:
    """Format smoothed loss, nll per token and perplexity e^nll."""
    nll = record["nll"]
    return f"loss {record['loss']:.4f}  nll {nll:.4f}  ppl {perplexity(nll):.2f}"
