"""Progress as a status line for terminals and notebooks; the command line has its own bars."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
Progress = Callable[[str, int, int | None], None]  # stage, amount done, total if known
REDRAW = 0.1  # seconds
BAR = 20  # characters


def no_progress(stage: str, done: int, total: int | None) -> None:
    """Ignore progress."""


def tracked(items: Sequence[T], stage: str, progress: Progress) -> Iterator[T]:
    """Iterate over items that each take a while, and report before each one how many are done."""
    for done, item in enumerate(items):
        progress(stage, done, len(items))
        yield item
    progress(stage, len(items), len(items))


class StatusLine:
    """A line that is redrawn in place, at most ten times a second; nothing outside a terminal or a notebook."""

    def __init__(self) -> None:
        self.stream, self.redraws = sys.stderr, is_interactive()
        self.width, self.drawn = 0, 0.0

    def show(self, text: str) -> None:
        """Redraw the line with this text."""
        now = time.monotonic()
        if self.redraws and now - self.drawn >= REDRAW:
            self.stream.write(f"\r{text.ljust(self.width)}")
            self.stream.flush()
            self.width, self.drawn = len(text), now

    def clear(self) -> None:
        """Erase the line."""
        if self.width:
            self.stream.write(f"\r{' ' * self.width}\r")
            self.stream.flush()
            self.width, self.drawn = 0, 0.0


def is_interactive() -> bool:
    """Whether this is a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def is_shown(progress: bool | None) -> bool:
    """Whether to show progress; None means only in a terminal or a notebook."""
    return is_interactive() if progress is None else progress


@contextmanager
def show_progress(progress: bool | Progress | None = None) -> Iterator[Progress]:
    """Yield a progress callback: the given one, or one that draws a status line until the context ends."""
    if callable(progress):
        yield progress
        return
    if not is_shown(progress):
        yield no_progress
        return
    line, started = StatusLine(), dict[str, float]()

    def draw(stage: str, done: int, total: int | None) -> None:
        start = started.setdefault(stage, time.monotonic())
        seconds = time.monotonic() - start
        left = f"  {describe_duration(seconds * (total - done) / done)} left" if total and done else ""
        line.show(f"{stage}  {draw_bar(done, total)}{left}")

    try:
        yield draw
    finally:
        line.clear()


def draw_bar(done: int, total: int | None) -> str:
    """A bar such as ▓▓▓▓░░░░ 40/100; without a total only the count."""
    if not total:
        return f"{done:,}" if done else "…"
    full = min(BAR, BAR * done // total)
    return f"{'▓' * full}{'░' * (BAR - full)} {done:,}/{total:,}"


def describe_duration(seconds: float) -> str:
    """A duration such as 5 s, 12 min, 3 h 20 min or 2 d 4 h."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
