"""What a run tells: lines for people, records for programs, a live bar on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lamina.errors import MissingExtraError
from lamina.training.run import Run


class Silence:
    """Says nothing: ranks other than the first, and measurements."""

    def say(self, line: str) -> None:
        """A line for people."""

    def record(self, record: dict[str, Any]) -> None:
        """A line of `metrics.jsonl`; its `kind` is train, valid or gradients."""

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        """Where training stands after a step."""


class Reports(Silence):
    """`train.log` and `metrics.jsonl` always; stderr and a live bar unless quiet; TensorBoard if asked."""

    def __init__(self, run: Run, quiet: bool, tensorboard: bool) -> None:
        self.run, self.quiet = run, quiet
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} tok/s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self.console,
            disable=quiet or not sys.stderr.isatty(),
        )
        self.task = self.bar.add_task("", total=None, loss=0.0, speed=0.0)
        self.board = open_tensorboard(run) if tensorboard else None

    def say(self, line: str) -> None:
        """Log it, and print it above the bar."""
        with (self.run.folder / "train.log").open("a", encoding="utf-8") as log:
            log.write(f"{line}\n")
        if not self.quiet:
            self.console.print(line, markup=False)

    def record(self, record: dict[str, Any]) -> None:
        """Append to `metrics.jsonl`, and to TensorBoard's log."""
        with self.run.metrics.open("a", encoding="utf-8") as records:
            records.write(json.dumps(record) + "\n")
        if self.board is not None:
            for name, value in scalars(record):
                self.board.add_scalar(name, value, record["step"])

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        """Move the bar."""
        self.bar.update(self.task, completed=step, total=total, loss=loss, speed=speed)


@contextmanager
def reporting(run: Run, quiet: bool, tensorboard: bool) -> Iterator[Reports]:
    """Reports whose bar is drawn until the end."""
    reports = Reports(run, quiet, tensorboard)
    try:
        with reports.bar:
            yield reports
    finally:
        if reports.board is not None:
            reports.board.close()


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
