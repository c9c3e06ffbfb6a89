"""A training on the terminal: its log lines and a live bar, both on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lamina.store.run import Run
from lamina.training.reporters import RunReporter


class TerminalReporter(RunReporter):
    """Prints what the run logs, above a bar where there is a terminal."""

    def __init__(self, run: Run, tensorboard: bool) -> None:
        super().__init__(run, tensorboard)
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} tok/s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=self.console,
            disable=not sys.stderr.isatty(),
        )
        self.task = self.bar.add_task("", total=None, loss=0.0, speed=0.0)

    def say(self, line: str) -> None:
        super().say(line)
        self.console.print(line, markup=False)

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        self.bar.update(self.task, completed=step, total=total, loss=loss, speed=speed)


@contextmanager
def open_reporter(run: Run, quiet: bool, tensorboard: bool) -> Iterator[RunReporter]:
    """A reporter of a run, and its bar for as long as the context lasts."""
    if quiet:
        reporter = RunReporter(run, tensorboard)
        try:
            yield reporter
        finally:
            reporter.close()
        return
    terminal = TerminalReporter(run, tensorboard)
    try:
        with terminal.bar:
            yield terminal
    finally:
        terminal.close()
