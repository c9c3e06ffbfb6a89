"""Signals on which training saves and stops: Ctrl-C, or a cluster's time limit."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lamina.errors import StoppedError

# Slurm sends SIGTERM at the time limit, or with --signal an earlier one, usually SIGUSR1
EXIT_CODES = {signal.SIGTERM: 75, signal.SIGUSR1: 75, signal.SIGINT: 130}
STOPPING = b"\r\x1b[2KStopping after this step ...\n"  # replaces the progress bar


@contextmanager
def stop_the_program() -> Iterator[None]:
    """Turn `StoppedError` into what ends a Python program: a signal is not meant for a single run of several."""
    try:
        yield
    except StoppedError as stopped:
        if stopped.exit_code == EXIT_CODES[signal.SIGINT]:
            raise KeyboardInterrupt(str(stopped)) from None
        print(stopped, file=sys.stderr)
        raise SystemExit(stopped.exit_code) from None


@contextmanager
def catch_signals(received: list[int]) -> Iterator[None]:
    """Append signals to `received` instead of terminating; no effect outside the main thread, as Python requires."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and not received and sys.stderr.isatty():
            os.write(sys.stderr.fileno(), STOPPING)  # print is not safe in a handler
        received.append(number)

    before = {number: signal.signal(number, note) for number in EXIT_CODES}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
