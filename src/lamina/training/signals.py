"""Signals that make training save and stop: Ctrl-C in a terminal, a time limit on a cluster."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Slurm sends SIGTERM, or with --signal another one ahead of time, usually SIGUSR1
EXIT_CODES = {signal.SIGTERM: 75, signal.SIGUSR1: 75, signal.SIGINT: 130}


@contextmanager
def catch_signals(received: list[int]) -> Iterator[None]:
    """Within the context, signals are only recorded in `received`; works in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in EXIT_CODES}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
