"""Training log and progress bar on stderr."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lamina.training.reporters import NullReporter


class TerminalReporter(NullReporter):
    """Prints log lines and, on a terminal, a progress bar below them."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=self.console,
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self.task = self.bar.add_task("starting", total=None, note="")
        self.valid = self.bar.add_task("validating", total=None, note="", visible=False)

    def say(self, line: str) -> None:
        self.console.print(line, markup=False)

    def progress(self, step: int, total: int, loss: float, speed: float) -> None:
        note = f"loss {loss:.3f}  {speed:,.0f} tok/s"
        self.bar.update(self.task, description="training", completed=step, total=total, note=note)
        self.bar.update(self.valid, visible=False)

    def validating(self, done: int, total: int) -> None:
        self.bar.update(self.valid, completed=done, total=total, visible=True)

    def __enter__(self) -> TerminalReporter:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()
