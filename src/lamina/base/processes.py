"""Process pools that end with the process that started them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from lamina.errors import KilledProcessError

Result = TypeVar("Result")
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


def run_in_child(work: Callable[[], Result]) -> Result:
    """Do work that ignores signals, such as a library's, in a copy of this process that Ctrl-C ends at once."""
    if sys.platform != "linux":
        return work()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_report, args=(sender, work, os.getpid()))
    child.start()
    sender.close()
    try:
        found, error = receiver.recv()
    except EOFError as gone:
        raise KilledProcessError("A child process was killed, possibly out of memory.") from gone
    finally:
        child.kill()
        child.join()
    if error is not None:
        raise error
    return cast("Result", found)


def _report(sender: Any, work: Callable[[], Any], parent: int) -> None:
    _begin(parent, lambda _: None, None)
    try:
        sender.send((work(), None))
    except BaseException as error:
        sender.send((None, error))


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
