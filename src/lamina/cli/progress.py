"""A progress bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def show_progress(quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None]]:
    """A function that takes a stage, how much is done and how much there is, and draws a bar on stderr."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=quiet or not sys.stderr.isatty()) as bars:
        stages: dict[str, int] = {}

        def update(stage: str, done: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total)
            bars.update(stages[stage], completed=done, total=total)  # type: ignore[arg-type]

        yield update
