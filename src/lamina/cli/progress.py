"""Progress bars on a terminal; elsewhere nothing, or lines for long tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def show_progress(quiet: bool = False) -> Iterator[Callable[[str, int, int | None], None]]:
    """A function that takes a stage, how much is done and how much there is, and draws a bar on stderr."""
    with _bars(quiet) as draw:
        yield lambda stage, done, total: draw(stage, stage, done, total)


@contextmanager
def show_training(quiet: bool = False) -> Iterator[Callable[[str, int, int, float], None]]:
    """A function that takes a training's name, its step, all its steps and its loss.

    It draws a bar for each training on a terminal; elsewhere it prints a line for each tenth of the way.
    """
    if quiet or sys.stderr.isatty():
        with _bars(quiet) as draw:
            yield lambda name, step, steps, loss: draw(name, f"{name}  loss {loss:.2f}", step, steps)
        return
    said: dict[str, int] = {}

    def line(name: str, step: int, steps: int, loss: float) -> None:
        tenth = 10 * step // steps
        if tenth > said.get(name, 0):
            said[name] = tenth
            print(f"         {name}: step {step} of {steps}, loss {loss:.2f}", file=sys.stderr)

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

        def draw(key: str, words: str, done: int, total: int | None) -> None:
            if key not in tasks:
                tasks[key] = bars.add_task(words, total=total)
            bars.update(tasks[key], description=words, completed=done, total=total)  # type: ignore[arg-type]

        yield draw
