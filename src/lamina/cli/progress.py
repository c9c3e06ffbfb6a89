"""Progress bars on a terminal; without one, nothing or a few lines for training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def show_progress(quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a function (stage, done, total) that draws a progress bar on stderr."""
    with _bars(quiet) as draw:
        yield lambda stage, done, total: draw(stage, stage, done, total)


@contextmanager
def show_training(quiet: bool = False) -> Iterator[Callable[[str, int, int, float | None], None]]:
    """Yield a function (name, step, steps, validation perplexity) that shows the progress of training runs.

    It draws a bar per run on a terminal; otherwise it prints a line after each tenth of the steps.
    """
    if quiet or sys.stderr.isatty():
        with _bars(quiet) as draw:
            yield lambda name, step, steps, valid: draw(
                name, name if valid is None else f"{name}  normalised validation perplexity {valid:.2f}", step, steps
            )
        return
    printed: dict[str, int] = {}
    shown: dict[str, float] = {}

    def line(name: str, step: int, steps: int, valid: float | None) -> None:
        tenth = 10 * step // steps
        if tenth > printed.get(name, 0):
            printed[name] = tenth
            perplexity = ""
            if valid is not None and valid != shown.get(name):
                shown[name], perplexity = valid, f", normalised validation perplexity {valid:.2f}"
            print(f"         {name}: step {step} of {steps}{perplexity}", file=sys.stderr)

    yield line


@contextmanager
def _bars(quiet: bool) -> Iterator[Callable[[str, str, int, int | None], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    shown = sys.stderr.isatty() and not quiet
    with Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True) as bars:
        tasks: dict[str, int] = {}

        def draw(key: str, description: str, done: int, total: int | None) -> None:
            if key not in tasks:
                tasks[key] = bars.add_task(description, total=total)
            bars.update(tasks[key], description=description, completed=done, total=total)  # type: ignore[arg-type]

        yield draw
