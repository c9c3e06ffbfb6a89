"""Spinner on a terminal while a command loads, until its first output."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

DELAY, TICK = 0.2, 0.25  # seconds before the first frame and between frames
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@contextmanager
def show_loading(text: str) -> Iterator[None]:
    """Show a spinner on stderr if it is a terminal, until something is written to stdout or stderr."""
    if not sys.stderr.isatty():
        yield
        return
    spinner = Spinner(sys.stderr, text)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Watched(sys.stdout, spinner), _Watched(sys.stderr, spinner)
    spinner.thread.start()
    try:
        yield
    finally:
        spinner.end()
        if isinstance(sys.stdout, _Watched):
            sys.stdout = before[0]
        if isinstance(sys.stderr, _Watched):
            sys.stderr = before[1]


class Spinner:
    """Animates a line of text in a thread."""

    def __init__(self, stream: TextIO, text: str) -> None:
        self.stream, self.text = stream, text
        self.lock, self.ended, self.drawn = threading.Lock(), threading.Event(), False
        self.thread = threading.Thread(target=self._spin, daemon=True)

    def end(self) -> None:
        """Remove the spinner; idempotent."""
        if self.ended.is_set():
            return
        self.ended.set()
        with self.lock:
            if self.drawn:
                self.stream.write("\r\x1b[K")
                self.stream.flush()

    def _spin(self) -> None:
        self.ended.wait(DELAY)
        started = time.monotonic()
        while True:
            with self.lock:
                if self.ended.is_set():
                    return
                frame = FRAMES[int((time.monotonic() - started) / TICK) % len(FRAMES)]
                self.stream.write(f"\r{frame} {self.text}")
                self.stream.flush()
                self.drawn = True
            self.ended.wait(TICK)


class _Watched:
    """Wraps a stream; its first output ends the spinner."""

    def __init__(self, stream: Any, spinner: Spinner) -> None:
        self._stream, self._spinner = stream, spinner

    def write(self, text: str) -> int:
        self._spinner.end()
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes are about to be written
            self._spinner.end()
        return getattr(self._stream, name)
