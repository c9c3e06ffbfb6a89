"""A spinner on the terminal while a command loads, until it writes something itself."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

DELAY, TICK = 0.2, 0.25  # seconds before the first sign, and between two
SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


@contextmanager
def show_loading(words: str) -> Iterator[None]:
    """Show a spinner on stderr if it is a terminal; any output to stdout or stderr ends it."""
    if not sys.stderr.isatty():
        yield
        return
    spinner = Spinner(sys.stderr, words)
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
    """Draws a symbol and some text in place, in a separate thread."""

    def __init__(self, stream: TextIO, words: str) -> None:
        self.stream, self.words = stream, words
        self.lock, self.ended, self.drawn = threading.Lock(), threading.Event(), False
        self.thread = threading.Thread(target=self._spin, daemon=True)

    def end(self) -> None:
        """Remove it; does nothing the second time."""
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
                sign = SIGNS[int((time.monotonic() - started) / TICK) % len(SIGNS)]
                self.stream.write(f"\r{sign} {self.words}")
                self.stream.flush()
                self.drawn = True
            self.ended.wait(TICK)


class _Watched:
    """A stream whose first output ends the spinner."""

    def __init__(self, stream: Any, spinner: Spinner) -> None:
        self._stream, self._spinner = stream, spinner

    def write(self, text: str) -> int:
        self._spinner.end()
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # bytes are about to be written
            self._spinner.end()
        return getattr(self._stream, name)
