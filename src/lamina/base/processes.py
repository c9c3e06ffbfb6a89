"""Pools of processes that end with the process that made them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

PR_SET_PDEATHSIG = 1  # of Linux' prctl


@contextmanager
def processes(workers: int, initializer: Callable[..., None], argument: Any) -> Iterator[Executor]:
    """A pool whose processes begin with `initializer(argument)`; a single worker stays in this process."""
    if workers <= 1:
        with ThreadPoolExecutor(1, initializer=initializer, initargs=(argument,)) as threads:
            yield threads
        return
    with start_processes(workers, initializer, argument) as pool:
        yield pool


def start_processes(workers: int, initializer: Callable[..., None], argument: Any) -> ProcessPoolExecutor:
    """A pool that is kept until it is shut down; on Linux its processes are copies of this one."""
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    first = (os.getpid(), initializer, argument)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=first)


def end_with_parent(how: str = "SIGTERM") -> None:
    """Have this process sent a signal when its parent ends, however that ends; on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.Signals[how])


def _begin(parent: int, initializer: Callable[..., None], argument: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    end_with_parent("SIGKILL")
    if os.getppid() != parent:  # it ended before that took effect
        os._exit(1)
    initializer(argument)
